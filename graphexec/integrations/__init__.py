"""What serves users of other libraries and protocols. Only the command line imports it."""
