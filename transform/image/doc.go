// Package image knows how encoded still images become RGB pixels, and how those are cropped,
// resized and mirrored, equal to the bit on every machine.
//
// It is the only package that links the image libraries (libjpeg-turbo, libpng, libwebp; through cgo), and
// only worker programs import it. One image costs two calls into C: a short one that reads the
// header, and one that decodes the region that is needed and resamples it row by row on the way.
// The C side is integers only; resampling coefficients are computed in Go, where every rounding is
// written down. Errors come back as [*transform.Error] and are equal wherever the bytes are tried.
package image
