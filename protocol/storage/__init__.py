"""What a role keeps on disk: key files, and what may happen only once."""
