package checkpoint

import (
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/stepahead-io/stepahead/checkpoint/dcp"
	"github.com/stepahead-io/stepahead/checkpoint/safetensors"
)

// The names by which layouts are known.
const (
	megatronConfig = "metadata.json"
	commonState    = "common.pt"
	trainerState   = "trainer_state.json"
	// rankMetadataPickle is what torch_checkpointing says of its files.
	rankMetadataPickle = "metadata.pkl"
	// universalFolder holds a folder for each parameter, universalScratch what the conversion has not joined yet.
	universalFolder  = "zero"
	universalScratch = "tmp"
	// tmpSuffix ends the name of metadata that is being written, or that a killed writer left.
	tmpSuffix = ".metadata.tmp"
)

var (
	rankMetadata   = regexp.MustCompile(`^__(\d{1,9})\.metadata$`)
	trainerFolder  = regexp.MustCompile(`^checkpoint-\d+$`)
	megatronRank   = regexp.MustCompile(`^mp_rank_\d{2,}(_\d{3,})?$`)
	deepSpeedFile  = regexp.MustCompile(`^((bf16_)?zero_pp_rank_\d+_)?mp_rank_\d+_(model|optim)_states\.pt$|^layer_\d+.*-?model_states\.pt$|^expp_rank_\d+_mp_rank_\d+_optim_states\.pt$`)
	numbered       = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})\.(safetensors|bin)$`)
	trailingNumber = regexp.MustCompile(`(\d{1,18})$`)
)

// detect tells which layout a folder has by the names in it; "" if it holds no checkpoint. Names of folders end in a slash.
func detect(folder string, names []string) Layout {
	has := func(fits func(name string) bool) bool {
		for _, n := range names {
			if fits(n) {
				return true
			}
		}
		return false
	}
	named := func(want string) func(string) bool { return func(n string) bool { return n == want } }
	ends := func(suffixes ...string) func(string) bool {
		return func(n string) bool {
			for _, s := range suffixes {
				if strings.HasSuffix(n, s) {
					return true
				}
			}
			return false
		}
	}
	weights := has(ends(".safetensors", safetensors.IndexSuffix))
	pickled := has(ends(".pt", ".pth", ".bin", ".ckpt"))
	switch {
	case has(named(trainerState)), trainerFolder.MatchString(path.Base(folder)) && (weights || pickled):
		return HuggingFace
	case has(named(megatronConfig)), has(named(commonState)):
		return TorchDist // or what else has such a file: see readTorchDist
	case has(named(dcp.MetadataName)), has(ends(dcp.DataSuffix, tmpSuffix)), has(rankMetadata.MatchString):
		return DCP
	case has(named(rankMetadataPickle)):
		return TorchCheckpointing
	case has(named(universalFolder+"/")) && (has(deepSpeedFile.MatchString) || has(named(universalScratch+"/"))):
		return DeepSpeedUniversal
	case has(deepSpeedFile.MatchString):
		return DeepSpeed
	case weights:
		return Safetensors
	case pickled, has(func(n string) bool { return megatronRank.MatchString(strings.TrimSuffix(n, "/")) }):
		return Torch
	}
	return ""
}

// layoutOfFile tells which layout a checkpoint has that is one file.
func layoutOfFile(name string) Layout {
	switch path.Ext(name) {
	case ".safetensors":
		return Safetensors
	case ".pt", ".pth", ".bin", ".ckpt":
		return Torch
	}
	return ""
}

// stepOf is the number at the end of a folder's name: iter_0000010, checkpoint-500, global_step7; -1 if there is none.
func stepOf(name string) int64 {
	digits := trailingNumber.FindString(path.Base(name))
	if digits == "" {
		return -1
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// transient tells names that no checkpoint's content has: what writers and copies in flight leave.
func transient(name string) bool {
	base := path.Base(name)
	return strings.HasSuffix(base, tmpSuffix) || strings.HasSuffix(base, "._COPYING_") || base == ".stepahead"
}
