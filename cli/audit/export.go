package audit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/hubsvc/audit"
)

func newCmdExport(f *cmdutil.Factory) *cobra.Command {
	var since, file string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Take the whole audit log out, line by line",
		Long: "Take the audit log of all replicas out: a line of JSON for each line of theirs, the oldest first, replica after replica.\n\n" +
			"Each has the replica, the hash, and as record the line byte by byte, so that plural audit verify FILE can check it. A line that\n" +
			"was cut off when a hub died stands as torn, in Base64. With -o csv there are columns instead, and nothing to check. --since goes\n" +
			"on where an earlier export ended; lines that come in both are the same, byte by byte. The exit code is 1 where a replica could\n" +
			"not be asked.",
		Example: cmdutil.Example("plural audit export --file audit.jsonl", "plural audit export --since 2026-11-22T10:00:00Z > audit.jsonl",
			"plural audit export --since 24h -o csv > audit.csv"),
		Args: cmdutil.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			from, err := moment(f, "since", since)
			if err != nil {
				return err
			}
			hub, err := f.HubClient()
			if err != nil {
				return err
			}
			return exportTo(f, file, func(out io.Writer) error { return export(cmd.Context(), f, hub, from, out) })
		},
	}
	cmd.Flags().StringVar(&since, "since", "", "written from this `TIME` on: 24h ago, or 2026-11-22T10:00:00Z")
	cmd.Flags().StringVar(&file, "file", "", "into this `FILE`, which appears when it is whole (default: to stdout)")
	return cmd
}

// exportTo writes a file that only its owner reads, and that is there when all of it is.
func exportTo(f *cmdutil.Factory, file string, write func(io.Writer) error) error {
	if file == "" {
		out := bufio.NewWriter(f.IO.Out)
		return errors.Join(write(out), out.Flush())
	}
	// CreateTemp makes files that only their owner can read.
	temp, err := os.CreateTemp(filepath.Dir(file), ".plural-audit-*")
	if err != nil {
		return err
	}
	out := bufio.NewWriter(temp)
	told := write(out)
	var lacking *incompleteError
	err = out.Flush()
	if told != nil && !errors.As(told, &lacking) {
		err = told
	}
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), file)
	}
	if err != nil {
		_ = os.Remove(temp.Name()) // what went wrong is more worth telling
		return err
	}
	return told
}

// incompleteError says that replicas could not be asked.
type incompleteError struct{ *ui.Err }

func (e *incompleteError) Unwrap() error { return e.Err }

func incomplete(replicas []string) error {
	return &incompleteError{&ui.Err{
		Msg: missed(replicas), Doc: ui.DocAudit,
		Fix: "start them, and ask again with plural audit; of one that is gone for good, plural audit verify takes the files",
	}}
}

// chunks calls each with the pieces of all replicas' logs, and says which replicas could not be asked.
func chunks(ctx context.Context, hub *client.Client, since time.Time, each func(*v1.AuditChunk) error) (missing []string, err error) {
	for continued := ""; ; {
		chunk, err := hub.AuditChunk(ctx, since, continued)
		if err != nil {
			return nil, err
		}
		if err := each(chunk); err != nil {
			return nil, err
		}
		if continued = chunk.Next; continued == "" {
			return chunk.Missing, nil
		}
	}
}

// lines are those of a chunk, without their line feeds.
func lines(chunk *v1.AuditChunk) [][]byte {
	if len(chunk.Text) == 0 {
		return nil
	}
	return bytes.Split(bytes.TrimSuffix(chunk.Text, []byte("\n")), []byte("\n"))
}

func export(ctx context.Context, f *cmdutil.Factory, hub *client.Client, since time.Time, out io.Writer) error {
	write := func(e audit.Entry) error {
		_, err := out.Write(append(e.MarshalEntry(), '\n'))
		return err
	}
	switch f.Output {
	case "csv":
		write = csvWriter(out, !f.NoHeaders)
	case "", "json", "table":
	default:
		return &ui.Err{Msg: "an export has no -o " + f.Output, Fix: "leave it out for lines of JSON, or give -o csv", Doc: ui.DocFormat}
	}
	missing, err := chunks(ctx, hub, since, func(chunk *v1.AuditChunk) error {
		for _, line := range lines(chunk) {
			var r v1.AuditRecord
			if json.Unmarshal(line, &r) == nil && r.Written().Before(since) {
				continue
			}
			if err := write(audit.Entry{Replica: chunk.Replica, Line: line}); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && len(missing) > 0 {
		err = incomplete(missing)
	}
	return err
}

func csvHeader() []string {
	return []string{
		"time", "stage", "replica", "person", "operator", "groups", "credential", "source",
		"verb", "what", "cluster", "decision", "status", "cause", "id", "hash",
	}
}

// csvWriter writes records as cells, below their names; what was cut off has none.
func csvWriter(out io.Writer, named bool) func(audit.Entry) error {
	table := csv.NewWriter(out)
	return func(e audit.Entry) error {
		if named {
			named = false
			if err := table.Write(csvHeader()); err != nil {
				return err
			}
		}
		var r v1.AuditRecord
		if json.Unmarshal(e.Line, &r) == nil {
			if err := table.Write(row(&r, e)); err != nil {
				return err
			}
		}
		table.Flush()
		return table.Error()
	}
}

func row(r *v1.AuditRecord, e audit.Entry) []string {
	cells := []string{
		r.Time.UTC().Format(time.RFC3339Nano), r.Stage, e.Replica, r.Person, strconv.FormatBool(r.Operator), strings.Join(r.Groups, " "),
		r.Credential, r.Source,
		r.Verb, what(r), r.Cluster, r.Decision, strconv.Itoa(r.Status), r.Cause, r.ID, audit.Hash(e.Line),
	}
	for i := range cells {
		cells[i] = cmdutil.CSVCell(cells[i])
	}
	return cells
}
