"""The Berkeley function-calling leaderboard: its cases and its checker, from the package `bfcl-eval`."""
