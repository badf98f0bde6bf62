package dcp

import (
	"fmt"
	"math"
	"strings"

	"github.com/stepahead-io/stepahead/checkpoint/dcp/pickle"
)

// itemClasses are all globals that the data.pkl of one tensor may name, beside dtypes and storages.
var itemClasses = map[string]map[string]*pickle.Class{
	"torch._utils": {
		"_rebuild_tensor_v2":            {Name: "_rebuild_tensor_v2", Make: rebuildTensor},
		"_rebuild_tensor_v3":            {Name: "_rebuild_tensor_v3", Make: rebuildTensorV3},
		"_rebuild_parameter":            {Name: "_rebuild_parameter", Make: rebuildParameter},
		"_rebuild_parameter_with_state": {Name: "_rebuild_parameter_with_state", Make: rebuildParameter},
		"_rebuild_sparse_tensor":        onlyTorch("_rebuild_sparse_tensor"), "_rebuild_qtensor": onlyTorch("_rebuild_qtensor"),
		"_rebuild_nested_tensor": onlyTorch("_rebuild_nested_tensor"), "_rebuild_wrapper_subclass": onlyTorch("_rebuild_wrapper_subclass"),
		"_rebuild_meta_tensor_no_storage":        onlyTorch("_rebuild_meta_tensor_no_storage"),
		"_rebuild_device_tensor_from_cpu_tensor": onlyTorch("_rebuild_device_tensor_from_cpu_tensor"),
		"_rebuild_device_tensor_from_numpy":      onlyTorch("_rebuild_device_tensor_from_numpy"),
	},
	"torch._tensor": {"_rebuild_from_type_v2": {Name: "_rebuild_from_type_v2", Make: rebuildFromType}},
	"torch": {
		"Tensor": {Name: "Tensor"}, "Size": sizeClass, "device": onlyTorch("device"),
		"per_tensor_affine": {Name: "per_tensor_affine"}, "per_channel_affine": {Name: "per_channel_affine"},
	},
	"torch.nn.parameter":  {"Parameter": {Name: "Parameter"}, "Buffer": {Name: "Buffer"}},
	"torch.storage":       {"UntypedStorage": {Name: "UntypedStorage"}},
	"torch.serialization": {"_get_layout": {Name: "_get_layout", Make: makeLayout}},
	"collections":         {"OrderedDict": {Name: "OrderedDict", Make: makeDict}},
}

var storageClasses = makeStorageClasses()

func makeStorageClasses() map[string]*pickle.Class {
	made := map[string]*pickle.Class{}
	for _, name := range []string{"QInt8Storage", "QUInt8Storage", "QInt32Storage", "QUInt4x2Storage", "QUInt2x4Storage"} {
		made[name] = &pickle.Class{Name: name}
	}
	for name := range storageDtypes {
		made[name] = &pickle.Class{Name: name}
	}
	return made
}

// itemClass is the allow-list of a data.pkl.
func itemClass(module, name string) *pickle.Class {
	if c := itemClasses[module][name]; c != nil || module != "torch" {
		return c
	}
	if c := storageClasses[name]; c != nil {
		return c
	}
	return dtypeClasses[name]
}

// onlyTorch is a kind of tensor that has more than one storage, or none.
func onlyTorch(name string) *pickle.Class {
	return &pickle.Class{Name: name, Make: func(pickle.Tuple) (any, error) {
		return nil, fmt.Errorf("a tensor of the kind %s: %w", name, ErrUnsupported)
	}}
}

// storageOf reads the persistent id of a storage: ("storage", class, key, device, number of elements).
func storageOf(id any) (any, error) {
	fields, ok := id.(pickle.Tuple)
	if !ok || len(fields) != 5 || fields[0] != "storage" {
		return nil, errArguments
	}
	class, isClass := fields[1].(*pickle.Class)
	key, isText := fields[2].(string)
	n, isNumber := fields[4].(int64)
	if !isClass || !isText || !isNumber || n < 0 {
		return nil, errArguments
	}
	if strings.HasPrefix(class.Name, "Q") {
		return nil, fmt.Errorf("a quantised tensor, in %s: %w", class.Name, ErrUnsupported)
	}
	s := &storage{key: key, dtype: storageDtypes[class.Name], bytes: n}
	switch width := dtypeBytes[s.dtype]; {
	case class.Name == "UntypedStorage":
	case width == 0 || n > math.MaxInt64/width:
		return nil, errArguments
	default:
		s.bytes = n * width
	}
	return s, nil
}

// rebuildTensor reads the arguments of _rebuild_tensor_v2: storage, offset, size, stride, requires_grad, hooks and maybe metadata.
func rebuildTensor(args pickle.Tuple) (any, error) {
	if len(args) != 6 && len(args) != 7 {
		return nil, errArguments
	}
	v, err := newView(args[:4])
	if err != nil {
		return nil, err
	}
	if v.dtype = v.storage.dtype; v.dtype == "" {
		return nil, errArguments
	}
	return v, nil
}

// rebuildTensorV3 reads the arguments of _rebuild_tensor_v3, which are those of v2 with a dtype behind the hooks and an untyped
// storage.
func rebuildTensorV3(args pickle.Tuple) (any, error) {
	if len(args) != 7 && len(args) != 8 {
		return nil, errArguments
	}
	v, err := newView(args[:4])
	if err != nil {
		return nil, err
	}
	dtype, ok := dtypeOf(args[6])
	if !ok {
		return nil, errArguments
	}
	v.dtype = dtype
	return v, nil
}

func newView(args pickle.Tuple) (*view, error) {
	s, isStorage := args[0].(*storage)
	offset, isNumber := args[1].(int64)
	shape, isShape := asSize(args[2])
	stride, isStride := asSize(args[3])
	if !isStorage || !isNumber || offset < 0 || !isShape || !isStride || len(shape) != len(stride) {
		return nil, errArguments
	}
	return &view{storage: s, offset: offset, shape: shape, stride: stride}, nil
}

// rebuildParameter is a parameter around a tensor: tensor, requires_grad, hooks and maybe a state.
func rebuildParameter(args pickle.Tuple) (any, error) {
	if len(args) == 3 || len(args) == 4 {
		if v, ok := args[0].(*view); ok {
			return v, nil
		}
	}
	return nil, errArguments
}

// rebuildFromType is a tensor with attributes: the function that builds it, its type, the function's arguments, attributes.
func rebuildFromType(args pickle.Tuple) (any, error) {
	if len(args) != 4 {
		return nil, errArguments
	}
	build, isClass := args[0].(*pickle.Class)
	inner, isTuple := args[2].(pickle.Tuple)
	if !isClass || !isTuple || build.Make == nil || build.Name == "_rebuild_from_type_v2" {
		return nil, errArguments
	}
	v, err := build.Make(inner)
	if err != nil {
		return nil, err
	}
	if v, ok := v.(*view); ok {
		return v, nil
	}
	return nil, errArguments
}
