package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stepahead-io/stepahead/checkpoint"
	"github.com/stepahead-io/stepahead/cmd/exit"
	"github.com/stepahead-io/stepahead/store"
)

func newCheckpointCatCommand() *cobra.Command {
	var f checkpointFlags
	c := &cobra.Command{
		Use:   "cat URL NAME",
		Short: "Write one tensor's bytes to standard output",
		Long: `Write the elements of a tensor to standard output, in C order, little-endian, put together from all of its chunks; or another
value's bytes as they were saved. --json describes it instead, with the SHA-256 of the bytes. The tensor is held in memory.
With STEPAHEAD_CATALOGUE=URL of this site's store, a temporary copy there is read (docs/checkpoints.md).`,
		Example: `  stepahead checkpoint cat runs/7b/iter_0001000 lm_head.weight > lm_head.bin
  stepahead checkpoint cat model.safetensors norm.weight --json`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withCopyOf(cmd.Context(), args[0], f, cmd.ErrOrStderr(), func(c *checkpoint.Checkpoint) error {
				return catTensor(cmd.Context(), cmd.OutOrStdout(), c, args[1], f.json)
			})
		},
	}
	f.add(c)
	return c
}

// described is what --json prints.
type described struct {
	Name   string  `json:"name"`
	Dtype  string  `json:"dtype,omitempty"`
	Shape  []int64 `json:"shape,omitempty"`
	Bytes  int     `json:"bytes"`
	SHA256 string  `json:"sha256"`
}

func catTensor(ctx context.Context, out io.Writer, c *checkpoint.Checkpoint, name string, asJSON bool) error {
	d := described{Name: name}
	var data []byte
	var err error
	if t, ok := c.Lookup(name); ok {
		d.Dtype, d.Shape = t.Dtype, t.Shape
		data, err = c.Load(ctx, t)
	} else {
		data, err = catBlob(ctx, c, name)
	}
	if err != nil {
		return err
	}
	if !asJSON {
		_, err := out.Write(data)
		return err
	}
	sum := sha256.Sum256(data)
	d.Bytes, d.SHA256 = len(data), hex.EncodeToString(sum[:])
	return json.NewEncoder(out).Encode(d)
}

func catBlob(ctx context.Context, c *checkpoint.Checkpoint, name string) ([]byte, error) {
	for _, b := range c.Blobs {
		if b.Name == name {
			return c.LoadBlob(ctx, &b)
		}
	}
	if c.Tensors == nil {
		return nil, exit.Usage(fmt.Errorf("checkpoint cat %s: the tensors of a %s checkpoint are torch's to load", c.URL(), c.Layout))
	}
	return nil, exit.Usage(fmt.Errorf("checkpoint cat %s: there is no tensor %q%s: `stepahead checkpoint inspect --tensors` lists them", c.URL(), name, nearTensor(c, name)))
}

// nearTensor asks whether another name was meant.
func nearTensor(c *checkpoint.Checkpoint, name string) string {
	for _, t := range c.Tensors {
		if strings.EqualFold(t.Name, name) || strings.HasSuffix(t.Name, "."+name) || strings.HasSuffix(name, "."+t.Name) {
			return fmt.Sprintf(", but %q", t.Name)
		}
	}
	return ""
}

func newCheckpointDiffCommand() *cobra.Command {
	var f checkpointFlags
	var metadata bool
	c := &cobra.Command{
		Use:   "diff URL URL",
		Short: "Compare two checkpoints, tensor by tensor",
		Long: `Compare two checkpoints of any layouts: tensors that one has and the other has not, dtypes, shapes, and bytes of the whole tensors,
however they are cut into chunks. Checkpoints whose tensors only torch reads are compared file by file. The exit code is 1 if they differ.`,
		Example: `  stepahead checkpoint diff runs/7b/iter_0001000 export/7b
  stepahead checkpoint diff --metadata runs/a/iter_0001000 runs/b/iter_0001000   # names, dtypes and shapes alone`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withCheckpoint(cmd.Context(), args[0], f, func(a *checkpoint.Checkpoint) error {
				return withCheckpoint(cmd.Context(), args[1], f, func(b *checkpoint.Checkpoint) error {
					return runCheckpointDiff(cmd.Context(), cmd.OutOrStdout(), newMeter(cmd.ErrOrStderr()), a, b, metadata, f.json)
				})
			})
		},
	}
	f.add(c)
	c.Flags().BoolVar(&metadata, "metadata", false, "do not compare bytes")
	return c
}

func runCheckpointDiff(ctx context.Context, out io.Writer, progress *meter, a, b *checkpoint.Checkpoint, metadata, asJSON bool) error {
	differ := 0
	e := json.NewEncoder(out)
	o := checkpoint.DiffOptions{Metadata: metadata, Progress: progress.ofBytes("diff", a.Bytes()+b.Bytes())}
	err := checkpoint.Diff(ctx, a, b, o, func(d checkpoint.Difference) error {
		differ++
		progress.clear()
		if asJSON {
			return e.Encode(d)
		}
		_, err := fmt.Fprintln(out, d)
		return err
	})
	progress.done()
	if store.ClassOf(err) == store.Corrupt || errors.Is(err, checkpoint.ErrIncomplete) {
		return exit.Finding(err)
	}
	if err != nil {
		return err
	}
	if differ > 0 {
		return exit.Finding(fmt.Errorf("checkpoint diff: %s", counted(differ, "difference")))
	}
	if asJSON {
		return nil
	}
	_, err = fmt.Fprintf(out, "equal: %s\n", compared(a))
	return err
}

// compared says what of a checkpoint is compared with one that turned out to be equal.
func compared(c *checkpoint.Checkpoint) string {
	if c.Tensors == nil {
		return counted(len(c.Files), "file")
	}
	return counted(len(c.Tensors), "tensor") + ", " + counted(len(c.Blobs), "other value")
}
