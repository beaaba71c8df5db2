"""Zero-knowledge proofs: that a sender knows what it sends, that it is allowed, that an opening is right."""
