// Package image knows how encoded still images become RGB pixels, and how plans change those, equal to the bit on
// every machine.
//
// It is the only package that links the image libraries (libjpeg-turbo, libpng, libwebp; through cgo), and only worker
// programs import it. A batch of images costs two calls into C: a short one that reads the headers, and one that
// decodes the region of each that is needed and crops, resizes or blurs it row by row on the way. What is no such step is
// done to finished pixels in Go, by package pixel. The C side is integers only; coefficients are computed in Go, where every
// rounding is written down. Errors come back as [*transform.Error] and are equal wherever the bytes are tried.
package image
