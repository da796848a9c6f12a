package render

import (
	"cmp"
	"time"

	"github.com/pluralsh/plural/internal/sandbox"
)

// Limits bound what one render may take. A zero field means its default.
type Limits struct {
	// Wall is how long a render may take, with the start of its child where that is new, to its answer. Default 30 s.
	Wall time.Duration `json:"wall"`
	// Memory is what the child may allocate beyond what it starts with, in bytes. Default 512 MiB. The child watches itself;
	// on Linux the kernel holds it to Memory and a quarter more, so that one huge allocation fails as well.
	Memory int64 `json:"memory"`
	// Input is the sum of all file sizes, in bytes. Default 128 MiB.
	Input int64 `json:"input"`
	// Files is how many files may go in. Default 50,000.
	Files int `json:"files"`
	// Document is the size of one YAML document that we decode, in bytes. Default 3 MiB.
	Document int `json:"document"`
	// Output is the size of all objects as JSON, in bytes. Default 64 MiB.
	Output int64 `json:"output"`
	// Objects is how many objects may come out. Default 20,000.
	Objects int `json:"objects"`
	// Lookups is how many different objects and lists a chart may look up. Default 1,000.
	Lookups int `json:"lookups"`
	// Looked is the size of all that a chart's lookups find, as JSON, in bytes. Default 32 MiB.
	Looked int64 `json:"looked"`
}

// maxAliased is how many YAML nodes the aliases of one file may add to what is written. Anchors in hand-written files
// add hundreds; a few hundred bytes of nested ones add billions.
const maxAliased = 20_000

// maxOpening bounds the line by which a child's walls are measured, in bytes.
const maxOpening = 16 << 10

// maxMessage bounds an error's text, in bytes.
const maxMessage = 4 << 10

func (l Limits) orDefaults() Limits {
	return Limits{
		Wall:     cmp.Or(l.Wall, 30*time.Second),
		Memory:   cmp.Or(l.Memory, 512<<20),
		Input:    cmp.Or(l.Input, 128<<20),
		Files:    cmp.Or(l.Files, 50_000),
		Document: cmp.Or(l.Document, 3<<20),
		Output:   cmp.Or(l.Output, 64<<20),
		Objects:  cmp.Or(l.Objects, 20_000),
		Lookups:  cmp.Or(l.Lookups, 1_000),
		Looked:   cmp.Or(l.Looked, 32<<20),
	}
}

// walls are the limits that the kernel holds. Two busy threads reach the processor time at twice the wall limit: a child that is
// as old as that may begin its last render.
func (l Limits) walls() sandbox.Limits {
	return sandbox.Limits{CPU: 4*l.Wall + time.Second, Memory: l.Memory}
}
