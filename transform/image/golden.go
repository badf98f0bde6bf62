package image

// Golden returns, for every operator identity that this build offers, the SHA-256 (hex) over what it
// makes of small built-in vectors. Two builds may use each other's pixels for an operator exactly
// when these agree.
func Golden() map[string]string { return map[string]string{} }
