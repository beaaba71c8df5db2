"""What the security analysis is tried against: broken protocols, planted leaks, hostile bytes, many seeds."""
