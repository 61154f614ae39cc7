"""What a vocabulary is made from."""
