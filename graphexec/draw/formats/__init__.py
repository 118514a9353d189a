"""One module for each format of a machine's picture. `graphexec.draw` chooses by name or suffix."""
