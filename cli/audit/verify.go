package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/hubsvc/audit"
)

func newCmdVerify(f *cmdutil.Factory) *cobra.Command {
	v := &verifier{factory: f, chains: map[string]*chain{}}
	var expect []string
	cmd := &cobra.Command{
		Use:   "verify [FILE...]",
		Short: "Check that no line of the audit log was changed or taken out",
		Long: "Check that each line of the audit log names the hash of the line before it: of all replicas of the hub or, where files are\n" +
			"named, of these. They are what plural audit export or a sink wrote, or audit*.jsonl of a hub's disk, the oldest first; files of\n" +
			"one folder are one replica's.\n\n" +
			"A line that does not follow the one before it is named with its file and number: the line before it was changed, or lines\n" +
			"between them were taken out or put in. That the log begins after lines that are gone is no mistake: the oldest files are deleted.\n" +
			"A line that was cut off when the hub died is none either, as long as the next one names it.\n\n" +
			"What is cut off at the end, and a log that was written anew as a whole, no chain shows. HEAD is the hash of the last line: note\n" +
			"it elsewhere, and check with --expect that it is still there. The exit code is 1 where something is wrong.",
		Example: cmdutil.Example("plural audit verify", "plural audit verify audit.jsonl",
			"plural audit verify --expect hub-0=c638f9f861f11d60ed09283f6a7db076477d3246fb31823981f9cf3c9d3403d8"),
		RunE: func(cmd *cobra.Command, args []string) error {
			printer, err := f.Printer("")
			if err != nil {
				return err
			}
			if v.expected, err = expectations(expect); err != nil {
				return err
			}
			var missing []string
			if len(args) > 0 {
				err = v.files(args)
			} else {
				missing, err = v.hub(cmd.Context())
			}
			if err != nil {
				return err
			}
			if err := f.Print(printer, v.view()); err != nil {
				return err
			}
			return v.verdict(missing)
		},
	}
	cmd.Flags().StringArrayVar(&expect, "expect", nil, "that this `HEAD`, as REPLICA=HASH or HASH, is in the chain")
	return cmd
}

// verifier checks chains.
type verifier struct {
	factory  *cmdutil.Factory
	chains   map[string]*chain
	expected []*expectation
}

// chain is one replica's.
type chain struct {
	audit.Chain
	// place is where it broke, with why.
	place  string
	broken error
}

// expectation is a head that was noted before.
type expectation struct {
	replica, hash string
	found         bool
}

func expectations(written []string) ([]*expectation, error) {
	var all []*expectation
	for _, text := range written {
		replica, hash, named := strings.Cut(text, "=")
		if !named {
			replica, hash = "", text
		}
		if len(hash) != 64 || strings.Trim(hash, "0123456789abcdef") != "" {
			return nil, &ui.Err{
				Msg: fmt.Sprintf("--expect %q has no hash", text), Doc: ui.DocUsage,
				Fix: "--expect REPLICA=HASH, as HEAD of plural audit verify has it",
			}
		}
		all = append(all, &expectation{replica: replica, hash: hash})
	}
	return all, nil
}

// hub checks what the hub has, and says which replicas could not be asked.
func (v *verifier) hub(ctx context.Context) ([]string, error) {
	hub, err := v.factory.HubClient()
	if err != nil {
		return nil, err
	}
	return chunks(ctx, hub, time.Time{}, func(chunk *v1.AuditChunk) error {
		for i, line := range lines(chunk) {
			v.add(chunk.Replica, chunk.File, chunk.Line+i+1, false, line, nil)
		}
		return nil
	})
}

// files checks files in their order.
func (v *verifier) files(names []string) error {
	for _, name := range names {
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		err = audit.Lines(file, func(n int, line []byte) error {
			entry, ok, err := audit.ParseEntry(line)
			if !ok {
				v.add(filepath.Dir(name), name, n, false, line, nil)
				return nil
			}
			v.add(entry.Replica, name, n, true, entry.Line, err)
			return nil
		})
		if err = errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// add takes the next line of a replica, unless its chain is broken. wrong says that it is not what it says of itself.
func (v *verifier) add(replica, file string, number int, again bool, line []byte, wrong error) {
	c := v.chains[replica]
	if c == nil {
		c = &chain{}
		v.chains[replica] = c
	}
	if c.broken != nil {
		return
	}
	c.Again = again
	if wrong == nil {
		wrong = c.Add(line)
	}
	if wrong != nil {
		c.place, c.broken = file+":"+strconv.Itoa(number), wrong
		return
	}
	for _, e := range v.expected {
		if (e.replica == "" || e.replica == replica) && (e.hash == c.Head || e.hash == c.Before) {
			e.found = true
		}
	}
}

// result is a chain as JSON has it.
type result struct {
	Replica string `json:"replica"`
	// Lines follow each other from First to Last; Torn of them were cut off.
	Lines   int       `json:"lines"`
	Torn    int       `json:"torn"`
	Doubles int       `json:"doubles"`
	First   time.Time `json:"first,omitzero"`
	Last    time.Time `json:"last,omitzero"`
	// Whole says that the first line is the first of all; else the line of the hash Before is gone.
	Whole  bool   `json:"whole"`
	Before string `json:"before,omitempty"`
	// Head is the hash of the last line that is good.
	Head string `json:"head,omitempty"`
	// Broken is where the first line stands that does not follow, and Why.
	Broken string `json:"broken,omitempty"`
	Why    string `json:"why,omitempty"`
}

func (v *verifier) names() []string {
	var names []string
	for name := range v.chains {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (v *verifier) view() ui.View {
	results := []result{}
	view := ui.View{Columns: []ui.Column{
		{Name: "REPLICA"}, {Name: "LINES"}, {Name: "FROM"}, {Name: "TO"}, {Name: "RESULT", Style: resultStyle}, {Name: "HEAD"},
	}}
	at := func(t time.Time) string {
		if t.IsZero() {
			return "-"
		}
		return t.UTC().Format(time.RFC3339)
	}
	for _, name := range v.names() {
		c := v.chains[name]
		r := result{name, c.Lines, c.Torn, c.Doubles, c.First, c.Last, c.Whole, c.Before, c.Head, c.place, ""}
		said := "good"
		if c.broken != nil {
			said, r.Why = "broken at "+c.place, c.broken.Error()
		}
		results = append(results, r)
		view.Names = append(view.Names, "replica/"+name)
		view.Rows = append(view.Rows, []string{name, strconv.Itoa(c.Lines), at(c.First), at(c.Last), said, cmdutil.OrDash(c.Head)})
		view.Lacks = append(view.Lacks, c.remarks(name)...)
	}
	view.Value = results
	if len(results) == 0 {
		view.Note = "there are no lines"
	}
	return view
}

// remarks are what is no mistake, and worth knowing.
func (c *chain) remarks(name string) (said []string) {
	if c.Lines > 0 && !c.Whole {
		said = append(said, name+" begins after lines that are gone: the oldest files are deleted when there are too many")
	}
	if c.Torn > 0 {
		const torn = "%s has %d lines that were cut off when the hub died: " +
			"nobody sees whether lines directly before them were changed or are missing"
		said = append(said, fmt.Sprintf(torn, name, c.Torn))
	}
	return said
}

func resultStyle(cell string) ui.Style {
	if cell != "good" {
		return ui.Red
	}
	return ""
}

// verdict is an error that names all that is wrong.
func (v *verifier) verdict(missing []string) error {
	var problems []ui.Problem
	for _, name := range v.names() {
		if c := v.chains[name]; c.broken != nil {
			problems = append(problems, ui.Problem{
				Where: name + ": " + c.place, Message: c.broken.Error(), Fix: "compare with what a sink got; see who can write the hub's disk",
			})
		}
	}
	for _, e := range v.expected {
		if !e.found {
			problems = append(problems, ui.Problem{
				Where:   cmp.Or(e.replica, "--expect"),
				Message: "no line has the hash " + e.hash + ": lines at the end were cut off, all was written anew, or its file is deleted",
				Fix:     "compare with what a sink got; see who can write the hub's disk",
			})
		}
	}
	if len(problems) > 0 {
		return &ui.Err{Msg: "the audit log is not what the hub wrote", Problems: problems, Doc: ui.DocAudit}
	}
	if len(missing) > 0 {
		return incomplete(missing)
	}
	return nil
}
