"""Every protocol played whole in one process."""
