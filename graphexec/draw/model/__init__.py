"""The parts of a picture, read from a machine and its proof, and the labels and colours of all formats. Internal."""
