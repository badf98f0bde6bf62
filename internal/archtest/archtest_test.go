package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// goroutineOwners lists the files and folders that may start goroutines, each with what ends them.
var goroutineOwners = map[string]string{
	"agent/loop.go":                     "Run cancels their context and waits for all of them",
	"agent/run.go":                      "Run cancels their context and waits for all of them",
	"agent/serve.go":                    "a fetch waits for its reads before it returns",
	"benchmarks":                        "a measurement ends with its process",
	"binfmt/foreign/index.go":           "Index waits for its looks at shards",
	"binfmt/foreign/pack.go":            "Pack waits for its writers of bins",
	"binfmt/foreign/scan.go":            "Index waits for its scanners",
	"binfmt/foreign/write.go":           "Index waits for its writers",
	"binfmt/pack/pack.go":               "Pack waits for its writers of bins",
	"binfmt/pack/scan.go":               "Pack waits for its scanners",
	"binfmt/pack/verify.go":             "Verify waits for its checkers of bins",
	"binfmt/pack/verify_folder.go":      "the check of a bin waits for its reads",
	"binfmt/pack/verify_parts.go":       "the check of a bin waits for its reads",
	"binfmt/pack/write.go":              "the writing of a bin waits for its reads",
	"checkpoint/catalogue/hot.go":       "a read waits for its replicas",
	"checkpoint/catalogue/write.go":     "List waits for its reads",
	"controller/temporary/marks.go":     "List waits for its reads",
	"controller/temporary/undo.go":      "Undo waits for its removals",
	"checkpoint/catalogue/wrap.go":      "ReadMany waits for its files",
	"checkpoint/digest.go":              "a reading waits for its readers of files",
	"checkpoint/look.go":                "a look waits for its calls",
	"checkpoint/nodecache/lock.go":      "whoever holds a lock waits for its signs of life to end",
	"checkpoint/ranges/run.go":          "Read waits for its reads",
	"checkpoint/reader.go":              "Open waits for its look at the marker",
	"checkpoint/save/begin.go":          "Begin waits for its removals",
	"checkpoint/save/send.go":           "Wait, Commit, Abort and a file's Close wait for all of them",
	"checkpoint/windows.go":             "ReadBoxes waits for its reads",
	"controller/execute/stores.go":      "a survey waits for its stores, until its context ends: one that hangs is given up",
	"controller/intake/facts.go":        "Run waits for all that look at stores",
	"controller/intake/looker.go":       "a look waits for its looks at files",
	"controller/intake/run.go":          "Run waits for all of them",
	"cmd/stepahead/cat.go":              "the command waits for its reader and its writer",
	"cmd/sites/sweep.go":                "a sweep waits for its stores",
	"cmd/stepahead-controller/serve.go": "the program waits for all of them",
	"cmd/stepahead-controller/world.go": "the publishing of a key waits for its stores",
	"cmd/stepahead-agent/serve.go":      "the program waits for its servers and its sweeper",
	"controller/audit/log.go":           "Close waits for it",
	"controller/execute/workers.go":     "Run cancels their context and waits for all of them",
	"controller/sources/copy.go":        "a copy waits for its reader, its writer and its comparing",
	"controller/copies":                 "a making waits for its transfers and calls",
	"hints/lifecycle/lifecycle.go":      "Close waits for it",
	"hints/lifecycle/send.go":           "a round waits for its calls",
	"internal/hdfstest/link.go":         "a link's Close waits for all of them",
	"internal/hdfstest/wire.go":         "ends with the JVM, which Close waits for",
	"loader/tasks.go":                   "Close waits for all of them",
	"pybind/calls.go":                   "ends with the operation, which CallCancel ends early and waits for",
	"pybind/session.go":                 "ends when the loader is open, has failed or is closed",
	"pybind/sharing.go":                 "a read waits for its files",
	"store/dir/read.go":                 "a read waits for its blocks",
	"store/hdfs/datanode":               "a pipeline's Close waits for it",
	"store/hdfs/ec/read.go":             "a read waits for its units",
	"store/hdfs/internal/fakedn":        "a fake DataNode's Close waits for all of them",
	"store/hdfs/many.go":                "a read waits for its requests",
	"store/hdfs/namenode/client.go":     "Close waits for all of them",
	"store/storetest":                   "a test waits for all of them",
	"transform/worker/process.go":       "ends with the worker process, which Close kills",
}

var checks = map[string]func([]Package) []string{
	"imports":          Imports,
	"peers":            Peers,
	"package comments": PackageComments,
	"names":            Names,
	"init":             Inits,
	"rims":             Rims,
	"local files":      LocalFiles,
	"cgo":              Cgo,
	"pure decisions":   PureDecisions,
	"goroutines":       func(p []Package) []string { return Goroutines(p, goroutineOwners) },
}

// plants has, for each check, packages that break it and a word that the report must hold.
var plants = map[string][]struct {
	pkg  Package
	want string
}{
	"imports": {
		{plant("loader", `import _ "`+Module+`/agent"`), "agent's server"},
		{plant("agent/fetch", `import _ "`+Module+`/agent"`), "agent's server"},
		{plant("loader", `import _ "`+Module+`/controller"`), "loader may import"},
		{plant("loader", `import _ "`+Module+`/store/dir"`), "concrete store"},
		{plant("agent", `import _ "`+Module+`/store/address"`), "concrete store"},
		{plant("store", `import _ "`+Module+`/store/dir"`), "concrete store"},
		{plant("agent", `import _ "`+Module+`/transform/image"`), "media libraries"},
		{plant("cmd/stepahead", `import _ "`+Module+`/transform/image"`), "media libraries"},
		{plant("agent", `import _ "`+Module+`/binfmt/pack"`), "only the command writes"},
		{plant("sampler", `import _ "`+Module+`/binfmt"`), "sampler may import"},
		{plant("store/hdfs", `import _ "`+Module+`/binfmt"`), "store may import"},
		{plant("agent", `import _ "`+Module+`/hints/hintspb"`), "wire types"},
		{plant("cmd/stepahead", `import _ "`+Module+`/internal/testdata"`), "test code"},
		{plant("checkpoint", `import _ "`+Module+`/store/dir"`), "concrete store"},
		{plant("checkpoint/dcp", `import _ "`+Module+`/binfmt"`), "checkpoint may import"},
		{plant("gadgets", `import _ "`+Module+`/store"`), "no place"},
	},
	"peers":            {{plant("store/hdfs", `import _ "github.com/colinmarc/hdfs/v2"`), "linked nowhere else"}},
	"package comments": {{plant("loader", ``), "package comments"}},
	"names":            {{plant("internal/util", ``), "drawer"}, {plant("common", ``), "drawer"}},
	"init":             {{plant("store", `func init() {}`), "init function"}},
	"rims": {
		{plant("store", `import "os"; var v = os.Getenv("HOME")`), "os.Getenv"},
		{plant("agent", `import "flag"; var v = flag.Int`), "imports flag"},
		{plant("agent", `import "go.uber.org/zap"; var v = zap.NewProduction`), "zap.NewProduction"},
	},
	"local files": {
		{plant("controller/journal", `import "os"; var v = os.Open`), "os.Open"},
		{plant("cmd/stepahead-controller", `import "os"; var v = os.WriteFile`), "os.WriteFile"},
		{plant("hints/relay", `import "os"; var v = os.Rename`), "os.Rename"},
	},
	"cgo": {{plant("store", `import "C"`), "uses cgo"}},
	"pure decisions": {
		{plant("sampler", `import "time"; var v time.Duration`), "pure function of the spec"},
		{plantFile("agent", "plan.go", `import "time"; var v = time.Now`), "time.Now"},
		{plantFile("agent", "plan.go", `import "os"; var v = os.Open`), "imports os"},
		{plantFile("controller", "plan.go", `func f() { go f() }`), "starts a goroutine"},
		{plantFile("controller/plan", "admit.go", `import "time"; var v = time.Now`), "time.Now"},
		{plantFile("controller", "plan.go", `func f(g interface{ Go(func()) }) { g.Go(nil) }`), "starts a goroutine"},
	},
	"goroutines": {
		{plant("store", `func f() { go f() }`), "not listed"},
		{plant("store", `import "sync"; func f() { var wg sync.WaitGroup; wg.Go(f) }`), "not listed"},
		{plantFile("agent", "tasks.go", `import "golang.org/x/sync/errgroup"; type t struct{ group errgroup.Group }; func (x *t) f() { x.group.Go(nil) }`), "not listed"},
		{plantFile("agent/fetch", "loop.go", `func f() { go f() }`), "not listed"}, // the owner's name in another folder
	},
}

// TestRules holds the module to every check.
func TestRules(t *testing.T) {
	packages, err := Load(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(packages) < 5 {
		t.Fatalf("only %d packages found: the rules would hold of nothing", len(packages))
	}
	for name, check := range checks {
		t.Run(name, func(t *testing.T) {
			for _, message := range check(packages) {
				t.Error(message)
			}
		})
	}
}

// TestPlanted proves that every check catches what it is for.
func TestPlanted(t *testing.T) {
	for name, check := range checks {
		if len(plants[name]) == 0 {
			t.Errorf("%s has no planted violation", name)
		}
		for _, p := range plants[name] {
			found := check([]Package{p.pkg})
			if !slices.ContainsFunc(found, func(s string) bool { return strings.Contains(s, p.want) }) {
				t.Errorf("%s: planted in %s, want a report with %q, got %q", name, p.pkg.Path, p.want, found)
			}
		}
	}
}

// TestOwnersAreReal keeps the list of goroutine owners true.
func TestOwnersAreReal(t *testing.T) {
	packages, err := Load(root)
	if err != nil {
		t.Fatal(err)
	}
	var starts []string
	for _, message := range Goroutines(packages, nil) {
		file, _, _ := strings.Cut(message, " ")
		starts = append(starts, file)
	}
	for owner := range goroutineOwners {
		if !slices.ContainsFunc(starts, func(file string) bool { return under(file, owner) }) {
			t.Errorf("%s is listed as an owner of goroutines and starts none", owner)
		}
	}
}

// TestBindingIsLean holds what the wheel's native module may not carry.
func TestBindingIsLean(t *testing.T) {
	deps, err := Deps(root, "pybind")
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range leanViolations(deps) {
		t.Error(bad)
	}
	planted := []string{Module + "/agent", "github.com/colinmarc/hdfs/v2", "github.com/tetratelabs/wazero/api", "go.etcd.io/bbolt", "gorgonia.org/tensor", "modernc.org/sqlite", "github.com/apache/arrow-go/v18/parquet/file", Module + "/controller"}
	if got := len(leanViolations(planted)); got != len(planted) {
		t.Errorf("planted %d heavy packages, found %d", len(planted), got)
	}
}

func leanViolations(deps []string) []string {
	exactly := []string{Module + "/agent", Module + "/controller"}
	heavy := []string{"github.com/tetratelabs/wazero", "go.etcd.io/bbolt", "modernc.org/sqlite", "github.com/mattn/go-sqlite3", "github.com/apache/arrow-go/v18/parquet", "gorgonia.org", "github.com/colinmarc/hdfs"}
	var found []string
	for _, d := range deps {
		if slices.Contains(exactly, d) || coveredBy(d, heavy) {
			found = append(found, "the binding carries "+d+": the wheel must stay small and hold no server")
		}
	}
	return found
}

// plant makes a package at path whose one file, after its package clause, is body.
func plant(path, body string) Package { return plantFile(path, "planted.go", body) }

func plantFile(path, file, body string) Package {
	syntax, err := parser.ParseFile(token.NewFileSet(), file, "package planted\n"+body, parser.ParseComments)
	if err != nil {
		panic(err)
	}
	p := Package{Path: path, Name: syntax.Name.Name, Files: []File{{Name: file, Generated: ast.IsGenerated(syntax), Syntax: syntax}}}
	for _, spec := range syntax.Imports {
		p.Imports = append(p.Imports, strings.Trim(spec.Path.Value, `"`))
	}
	return p
}
