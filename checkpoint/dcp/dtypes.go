package dcp

// dtypeBytes are torch's element types and their size in bytes; 0 for those of less than a byte, which no tensor is saved in
// element by element.
var dtypeBytes = map[string]int64{
	"bool": 1, "uint8": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8,
	"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "complex32": 4, "bcomplex32": 4, "complex64": 8, "complex128": 16,
	"float8_e4m3fn": 1, "float8_e4m3fnuz": 1, "float8_e5m2": 1, "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1, "float4_e2m1fn_x2": 1,
	"bits8": 1, "bits16": 2, "bits1x8": 1, "bits2x4": 1, "bits4x2": 1, "quint8": 1, "qint8": 1, "qint32": 4, "quint4x2": 1, "quint2x4": 1,
	"uint1": 0, "uint2": 0, "uint3": 0, "uint4": 0, "uint5": 0, "uint6": 0, "uint7": 0,
	"int1": 0, "int2": 0, "int3": 0, "int4": 0, "int5": 0, "int6": 0, "int7": 0,
}

// storageDtypes are the element types that the names of torch's storages say.
var storageDtypes = map[string]string{
	"BoolStorage": "bool", "ByteStorage": "uint8", "CharStorage": "int8", "ShortStorage": "int16", "IntStorage": "int32", "LongStorage": "int64",
	"HalfStorage": "float16", "BFloat16Storage": "bfloat16", "FloatStorage": "float32", "DoubleStorage": "float64",
	"ComplexFloatStorage": "complex64", "ComplexDoubleStorage": "complex128",
}

// DtypeBytes is the size of an element of a dtype, by torch's name without the module; false for a name that torch does not
// have or whose elements have less than a byte.
func DtypeBytes(dtype string) (int64, bool) {
	n := dtypeBytes[dtype]
	return n, n > 0
}
