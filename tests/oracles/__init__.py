"""Independent sources of right numbers, and forms to compare them on."""
