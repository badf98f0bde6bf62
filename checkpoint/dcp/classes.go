package dcp

import (
	"errors"
	"fmt"
	"strings"

	"github.com/stepahead-io/stepahead/checkpoint/dcp/pickle"
)

// The values that pickles of metadata are made of.
type (
	// size is a torch.Size.
	size []int64
	// layout is a torch.layout, such as "torch.strided".
	layout string
	// location is a path of pathlib.
	location string
	// memoryFormat is torch's encoding of one.
	memoryFormat int64
	// index is a MetadataIndex. Its index field is a hint and no part of what it names.
	index struct {
		name   string
		offset size
	}
	// chunk is a ChunkStorageMetadata.
	chunk struct{ offsets, sizes size }
	// info is a _StorageInfo, or a _HFStorageInfo with inSafetensors.
	info struct {
		path          string
		off, len      int64
		transforms    []string
		inSafetensors bool
	}
	// properties is a TensorProperties.
	properties struct {
		dtype        string
		layout       layout
		requiresGrad bool
		memory       memoryFormat
		strides      size
	}
	// record is an instance of which the attributes are looked up by name.
	record struct {
		class string
		attrs map[string]any
	}
)

const (
	dcpMetadata = "torch.distributed.checkpoint.metadata"
	dcpPlanner  = "torch.distributed.checkpoint.planner"
	oldMetadata = "torch.distributed._shard.sharded_tensor.metadata" // torch before 2.3
	megatron    = "megatron.core.dist_checkpointing.strategies.torch"
	client      = "multistorageclient.pathlib" // the Multi-Storage Client
	clientPath  = "MultiStoragePath"
	dtypePrefix = "torch."
)

// classes are all globals that a pickle of metadata may name, by module and name.
var classes = map[string]map[string]*pickle.Class{
	dcpMetadata: {
		"Metadata": recordClass("Metadata"), "StorageMeta": recordClass("StorageMeta"),
		"TensorStorageMetadata": recordClass("TensorStorageMetadata"), "BytesStorageMetadata": recordClass("BytesStorageMetadata"),
		"MetadataIndex":        {Name: "MetadataIndex", Make: empty(func() any { return &index{} })},
		"ChunkStorageMetadata": {Name: "ChunkStorageMetadata", Make: empty(func() any { return &chunk{} })},
		"TensorProperties":     propertiesClass, "_MEM_FORMAT_ENCODING": memoryClass,
	},
	oldMetadata: {"TensorProperties": propertiesClass, "MEM_FORMAT_ENCODING": memoryClass},
	dcpPlanner: {
		"SavePlan": recordClass("SavePlan"), "WriteItem": recordClass("WriteItem"), "TensorWriteData": recordClass("TensorWriteData"),
		"BytesIOWriteData": recordClass("BytesIOWriteData"), "WriteItemType": {Name: "WriteItemType", Make: one},
	},
	"torch.distributed.checkpoint.filesystem": {
		"_StorageInfo": {Name: "_StorageInfo", Make: empty(func() any { return &info{} })},
	},
	"torch.distributed.checkpoint._hf_utils": {
		"_HFStorageInfo": {Name: "_HFStorageInfo", Make: empty(func() any { return &info{inSafetensors: true} })},
	},
	megatron:              {"MCoreMetadata": recordClass("MCoreMetadata"), "MCoreSavePlan": recordClass("MCoreSavePlan")},
	"torch.serialization": {"_get_layout": {Name: "_get_layout", Make: makeLayout}},
	"pathlib":             pathClasses, "pathlib._local": pathClasses,
	client:        {clientPath: recordClass(clientPath)},
	"collections": {"OrderedDict": {Name: "OrderedDict", Make: makeDict}},
	"builtins":    builtins, "__builtin__": builtins,
}

var (
	propertiesClass = &pickle.Class{Name: "TensorProperties", Make: empty(func() any { return &properties{} })}
	memoryClass     = &pickle.Class{Name: "_MEM_FORMAT_ENCODING", Make: makeMemoryFormat}
	sizeClass       = &pickle.Class{Name: "torch.Size", Make: makeSize}
	pathClass       = &pickle.Class{Name: "pathlib.Path", Make: makePath}
	pathClasses     = map[string]*pickle.Class{
		"Path": pathClass, "PosixPath": pathClass, "PurePosixPath": pathClass, "PurePath": pathClass,
	}
	builtins = map[string]*pickle.Class{
		"set": {Name: "set", Make: makeSet}, "frozenset": {Name: "frozenset", Make: makeSet}, "list": {Name: "list", Make: makeList},
		"dict": {Name: "dict", Make: makeDict}, "tuple": {Name: "tuple", Make: makeTuple},
	}
	dtypeClasses = makeDtypeClasses()
)

// metadataClass is the allow-list of a .metadata.
func metadataClass(module, name string) *pickle.Class {
	if module == "torch" {
		if name == "Size" {
			return sizeClass
		}
		return dtypeClasses[name]
	}
	return classes[module][name]
}

func makeDtypeClasses() map[string]*pickle.Class {
	made := map[string]*pickle.Class{}
	for name := range dtypeBytes {
		made[name] = &pickle.Class{Name: dtypePrefix + name}
	}
	return made
}

// dtypeOf is the name of a dtype's global.
func dtypeOf(v any) (string, bool) {
	c, ok := v.(*pickle.Class)
	if !ok {
		return "", false
	}
	name, ok := strings.CutPrefix(c.Name, dtypePrefix)
	_, known := dtypeBytes[name]
	return name, ok && known
}

var errArguments = errors.New("called with other arguments than torch writes")

// empty makes an instance that gets its state later.
func empty(instance func() any) func(pickle.Tuple) (any, error) {
	return func(args pickle.Tuple) (any, error) {
		if len(args) != 0 {
			return nil, errArguments
		}
		return instance(), nil
	}
}

func recordClass(name string) *pickle.Class {
	return &pickle.Class{Name: name, Make: empty(func() any { return &record{class: name} })}
}

// one makes an enumeration's value, which is its number.
func one(args pickle.Tuple) (any, error) {
	if len(args) == 1 {
		if n, ok := args[0].(int64); ok {
			return n, nil
		}
	}
	return nil, errArguments
}

func makeSize(args pickle.Tuple) (any, error) {
	if len(args) != 1 {
		return nil, errArguments
	}
	switch v := args[0].(type) {
	case pickle.Tuple:
		return integers(v)
	case *pickle.List:
		return integers(v.Items)
	}
	return nil, errArguments
}

// maxDimensions is more than any tensor has.
const maxDimensions = 1000

// integers makes a size of values, none of which may be negative.
func integers(values []any) (size, error) {
	if len(values) > maxDimensions {
		return nil, fmt.Errorf("a size of %d dimensions, and no tensor has more than %d", len(values), maxDimensions)
	}
	s := make(size, len(values))
	for i, v := range values {
		n, ok := v.(int64)
		if !ok || n < 0 {
			return nil, errors.New("a size that is not made of integers from 0")
		}
		s[i] = n
	}
	return s, nil
}

func makeLayout(args pickle.Tuple) (any, error) {
	if len(args) == 1 {
		if name, ok := args[0].(string); ok {
			return layout(name), nil
		}
	}
	return nil, errArguments
}

func makeMemoryFormat(args pickle.Tuple) (any, error) {
	if len(args) == 1 {
		if n, ok := args[0].(int64); ok && n >= 0 && int(n) < len(memoryFormats) {
			return memoryFormat(n), nil
		}
	}
	return nil, fmt.Errorf("%w: a memory format of a later torch?", errArguments)
}

func makePath(args pickle.Tuple) (any, error) {
	parts := make([]string, len(args))
	for i, a := range args {
		part, ok := a.(string)
		if !ok {
			return nil, errArguments
		}
		parts[i] = part
	}
	if len(parts) > 1 && parts[0] == "/" {
		parts[0] = ""
	}
	return location(strings.Join(parts, "/")), nil
}

func makeList(args pickle.Tuple) (any, error) {
	items, err := makeTuple(args)
	if err != nil {
		return nil, err
	}
	return &pickle.List{Items: append([]any(nil), items.(pickle.Tuple)...)}, nil
}

func makeSet(args pickle.Tuple) (any, error) {
	items, err := makeTuple(args)
	if err != nil {
		return nil, err
	}
	for _, item := range items.(pickle.Tuple) {
		if err := pickle.CheckKey(item); err != nil {
			return nil, err
		}
	}
	return makeList(args)
}

func makeTuple(args pickle.Tuple) (any, error) {
	switch {
	case len(args) == 0:
		return pickle.Tuple(nil), nil
	case len(args) > 1:
		return nil, errArguments
	}
	switch v := args[0].(type) {
	case pickle.Tuple:
		return v, nil
	case *pickle.List:
		return pickle.Tuple(v.Items), nil
	}
	return nil, errArguments
}

func makeDict(args pickle.Tuple) (any, error) {
	if len(args) != 0 {
		return nil, errArguments
	}
	return &pickle.Dict{}, nil
}
