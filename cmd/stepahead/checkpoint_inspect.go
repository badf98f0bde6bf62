package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/stepahead-io/stepahead/checkpoint"
	"github.com/stepahead-io/stepahead/cmd/exit"
)

// smallTensor is the size below which a tensor costs a round trip rather than bandwidth.
const smallTensor = 16 << 10

func newCheckpointInspectCommand() *cobra.Command {
	var f checkpointFlags
	var tensors, files bool
	c := &cobra.Command{
		Use:   "inspect URL",
		Short: "Show what a checkpoint holds, and whether it is complete",
		Long: `Show a checkpoint's layout, identity, files and tensors, and whether it is complete or what is missing. Metadata and headers are
read, tensors are not. The exit code is 1 if it is not complete.`,
		Example: `  stepahead checkpoint inspect runs/7b/iter_0001000 --tensors
  stepahead checkpoint inspect runs/7b/iter_0001000 --json | jq '.tensors[] | select(.bytes < 16384) | .name'`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withCheckpoint(cmd.Context(), args[0], f, func(c *checkpoint.Checkpoint) error {
				if err := inspectCheckpoint(cmd.OutOrStdout(), c, f.json, tensors, files); err != nil {
					return err
				}
				return c.Complete()
			})
		},
	}
	f.add(c)
	c.Flags().BoolVar(&tensors, "tensors", false, "list every tensor (--json always does)")
	c.Flags().BoolVar(&files, "files", false, "list every file (--json always does)")
	return c
}

// inspected is what --json prints.
type inspected struct {
	listedCheckpoint
	FileList []checkpoint.File `json:"file_list"`
	Tensors  []inspectedTensor `json:"tensors"`
	Blobs    []inspectedPart   `json:"blobs"`
}

type inspectedTensor struct {
	Name   string          `json:"name"`
	Dtype  string          `json:"dtype"`
	Shape  []int64         `json:"shape"`
	Bytes  int64           `json:"bytes"`
	Chunks []inspectedPart `json:"chunks"`
}

// inspectedPart is where bytes lie. A file of null is missing.
type inspectedPart struct {
	Name    string  `json:"name,omitempty"`
	File    *string `json:"file"`
	Off     int64   `json:"off"`
	Len     int64   `json:"len"`
	Offsets []int64 `json:"offsets,omitempty"`
	Sizes   []int64 `json:"sizes,omitempty"`
}

func inspectCheckpoint(out io.Writer, c *checkpoint.Checkpoint, asJSON, tensors, files bool) error {
	if asJSON {
		return json.NewEncoder(out).Encode(inspectedOf(c))
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	state := "yes"
	if len(c.Problems) > 0 {
		state = "no"
	}
	fmt.Fprintf(w, "checkpoint\t%s\nlayout\t%s\ncomplete\t%s\nidentity\t%s\nsave id\t%s\nfiles\t%d, %s\n",
		printableName(c.URL()), c.Layout, state, c.Identity(), orDash(printableName(c.SaveID)), len(c.Files), formatBytes(c.Bytes()))
	printTensorSummary(w, c)
	printProblems(w, "problem", c.Problems)
	printProblems(w, "doubt", c.Doubts)
	if files {
		fmt.Fprint(w, "\nfile\tbytes\tidentity\n")
		for _, f := range c.Files {
			fmt.Fprintf(w, "%s\t%d\t%s\n", printableName(f.Name), f.Size, f.Identity)
		}
	}
	if tensors {
		fmt.Fprint(w, "\ntensor\tdtype\tshape\tbytes\tchunks\n")
		for _, t := range c.Tensors {
			n, _ := t.Bytes()
			fmt.Fprintf(w, "%s\t%s\t%v\t%d\t%d\n", printableName(t.Name), t.Dtype, t.Shape, n, len(t.Chunks))
		}
	}
	return w.Flush()
}

// printProblems prints the first few of each kind: a copy of a large checkpoint has the same doubt of thousands of files.
func printProblems(w io.Writer, word string, all []checkpoint.Problem) {
	const most = 4
	count := map[string]int{}
	for _, p := range all {
		if count[p.Kind]++; count[p.Kind] <= most {
			fmt.Fprintf(w, "%s\t%s\n", word, p)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(count)) {
		if more := count[kind] - most; more > 0 {
			fmt.Fprintf(w, "%s\t%s: %d more (--json lists all)\n", word, kind, more)
		}
	}
}

func printTensorSummary(w io.Writer, c *checkpoint.Checkpoint) {
	if c.Tensors == nil {
		fmt.Fprint(w, "tensors\tnot known: only torch reads its pickles\n")
		return
	}
	bytes, count := map[string]int64{}, map[string]int{}
	small := 0
	for _, t := range c.Tensors {
		n, _ := t.Bytes()
		bytes[t.Dtype] += n
		count[t.Dtype]++
		if n < smallTensor {
			small++
		}
	}
	fmt.Fprintf(w, "tensors\t%d, %d of them below %s\n", len(c.Tensors), small, formatBytes(smallTensor))
	for _, dtype := range slices.Sorted(maps.Keys(count)) {
		fmt.Fprintf(w, "  %s\t%d, %s\n", dtype, count[dtype], formatBytes(bytes[dtype]))
	}
	if len(c.Blobs) > 0 {
		fmt.Fprintf(w, "other values\t%d\n", len(c.Blobs))
	}
}

func inspectedOf(c *checkpoint.Checkpoint) inspected {
	place := func(name string, file int, off, n int64) inspectedPart {
		part := inspectedPart{Name: name, Off: off, Len: n}
		if file >= 0 {
			part.File = &c.Files[file].Name
		}
		return part
	}
	all := inspected{listedCheckpoint: describeCheckpoint(c), FileList: orEmpty(c.Files), Tensors: []inspectedTensor{}, Blobs: []inspectedPart{}}
	for _, t := range c.Tensors {
		n, _ := t.Bytes()
		one := inspectedTensor{Name: t.Name, Dtype: t.Dtype, Shape: orEmpty(t.Shape), Bytes: n}
		for _, ch := range t.Chunks {
			part := place("", ch.File, ch.Off, ch.Len)
			part.Offsets, part.Sizes = ch.Offsets, ch.Sizes
			one.Chunks = append(one.Chunks, part)
		}
		all.Tensors = append(all.Tensors, one)
	}
	for _, b := range c.Blobs {
		all.Blobs = append(all.Blobs, place(b.Name, b.File, b.Off, b.Len))
	}
	return all
}

func newCheckpointVerifyCommand() *cobra.Command {
	var f checkpointFlags
	var want string
	var rate byteSize
	c := &cobra.Command{
		Use:   "verify URL",
		Short: "Read all of a checkpoint and name everything that is wrong with it",
		Long: `Read all files of a checkpoint: what is missing, cut or appended, tensors whose own description or CRC-32 is not that of the metadata,
and the digest, which copies have in common. With --digest it must be the one given. The exit code is 1 if anything is wrong.`,
		Example: `  stepahead checkpoint verify runs/7b/iter_0001000 --json | jq -r 'select(.kind == "checked") | .digest'
  stepahead checkpoint verify hdfs://other/7b/iter_0001000 --digest 7d0c... --rate 200MiB`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			progress := newMeter(cmd.ErrOrStderr())
			return withCheckpoint(cmd.Context(), args[0], f, func(c *checkpoint.Checkpoint) error {
				v, err := c.Verify(cmd.Context(), checkpoint.ReadOptions{Rate: int64(rate), Progress: progress.ofBytes("verify", c.Bytes())})
				progress.done()
				if err != nil {
					return err
				}
				return printVerified(cmd.OutOrStdout(), c, v, want, f.json)
			})
		},
	}
	f.add(c)
	c.Flags().StringVar(&want, "digest", "", "the digest that it must have")
	c.Flags().Var(&rate, "rate", "bytes per second to read at most; may have a unit")
	return c
}

// verifiedCheckpoint is the last line of --json.
type verifiedCheckpoint struct {
	Kind   string                  `json:"kind"`
	Digest string                  `json:"digest"`
	Layout checkpoint.Layout       `json:"layout"`
	SaveID string                  `json:"save_id"`
	Bytes  int64                   `json:"bytes"`
	Items  int                     `json:"items"`
	NoSums int                     `json:"no_sums"`
	Files  []checkpoint.FileDigest `json:"files"`
}

func printVerified(out io.Writer, c *checkpoint.Checkpoint, v *checkpoint.Verified, want string, asJSON bool) error {
	problems := v.Problems
	if want != "" && want != v.Sum {
		problems = append(problems, checkpoint.Problem{Kind: "digest", Detail: fmt.Sprintf("it is %s, and not %s", v.Sum, want)})
	}
	e := json.NewEncoder(out)
	for _, p := range problems {
		var err error
		if asJSON {
			err = e.Encode(p)
		} else {
			_, err = fmt.Fprintln(out, p)
		}
		if err != nil {
			return err
		}
	}
	var err error
	if asJSON {
		err = e.Encode(verifiedCheckpoint{"checked", v.Sum, c.Layout, c.SaveID, c.Bytes(), v.Items, v.NoSums, orEmpty(v.Files)})
	} else {
		_, err = fmt.Fprintf(out, "checked %s, %s, %s with a description beside its bytes (%d without a sum): %s\ndigest %s\n",
			counted(len(c.Files), "file"), formatBytes(c.Bytes()), counted(v.Items, "tensor"), v.NoSums, counted(len(problems), "problem"), v.Sum)
	}
	if err == nil && len(problems) > 0 {
		err = exit.Finding(fmt.Errorf("checkpoint verify %s: %s", c.URL(), counted(len(problems), "problem")))
	}
	return err
}
