"""What is shown in a browser: the page of a trace, and the texts that the server's page is made of."""
