"""What serves users of other libraries. Nothing else in the package imports it."""
