"""What every role shares: cryptography, messages, transcripts. Knows no machine learning."""
