"""One module for each format of a picture. `graphexec.draw` chooses by name or suffix."""
