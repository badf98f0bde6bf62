"""The folder that the build puts gopy's module into."""
