"""stepahead."""
