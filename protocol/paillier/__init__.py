"""Paillier encryption in bulk: keys, fast encryption, packed vectors, threshold decryption."""
