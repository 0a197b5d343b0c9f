"""The sureact command, one file per subcommand."""
