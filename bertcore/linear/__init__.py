"""Linear models with features made by hand: what could be had without any network"""
