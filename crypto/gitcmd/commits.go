package gitcmd

import (
	"context"
	"fmt"
	"strings"
)

// Range selects commits.
type Range struct {
	// Tips are the revisions whose history is looked at.
	Tips []string
	// Known are object names whose history is left out. One that this clone does not have leaves nothing out.
	Known []string
	// Remote leaves out the history of all its tracking branches, too; empty for none.
	Remote string
}

// NewCommits lists the commits of a range, the newest first.
func (r *Repo) NewCommits(ctx context.Context, s Range) ([]string, error) {
	if len(s.Tips) == 0 {
		return nil, nil
	}
	known, err := r.have(ctx, s.Known)
	if err != nil {
		return nil, err
	}
	var input strings.Builder
	for _, tip := range s.Tips {
		input.WriteString(tip + "\n")
	}
	for _, oid := range known {
		input.WriteString("^" + oid + "\n")
	}
	args := []string{"rev-list", "--stdin"}
	if s.Remote != "" {
		args = append(args, "--not", "--remotes="+globEscape(s.Remote))
	}
	out, err := r.run(ctx, strings.NewReader(input.String()), args...)
	if err != nil {
		return nil, fmt.Errorf("list new commits: %w", err)
	}
	return strings.Fields(string(out)), nil
}

// have are those of the objects that are commits of this clone.
func (r *Repo) have(ctx context.Context, oids []string) ([]string, error) {
	if len(oids) == 0 {
		return nil, nil
	}
	out, err := r.run(ctx, strings.NewReader(strings.Join(oids, "\n")+"\n"), "cat-file", "--batch-check")
	if err != nil {
		return nil, fmt.Errorf("look for known commits: %w", err)
	}
	var found []string
	for line := range strings.Lines(string(out)) {
		if words := strings.Fields(line); len(words) == 3 && (words[1] == "commit" || words[1] == "tag") {
			found = append(found, words[0])
		}
	}
	return found, nil
}

// globEscape lets a remote's name stand for itself where git takes a pattern.
func globEscape(name string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(name) + "/*"
}

// Change is a file as one commit left it.
type Change struct {
	Commit string
	Entry
}

// Changed lists the files that the commits added or changed, commit by commit in the order given. What a merge took over
// from one of its parents is that parent's change, and removed files are left out.
func (r *Repo) Changed(ctx context.Context, commits []string) ([]Change, error) {
	if len(commits) == 0 {
		return nil, nil
	}
	input := strings.NewReader(strings.Join(commits, "\n") + "\n")
	out, err := r.run(ctx, input, "diff-tree", "--stdin", "-r", "-z", "-c", "--root", "--always", "--no-renames", "--raw", "--no-abbrev")
	if err != nil {
		return nil, fmt.Errorf("list changes of commits: %w", err)
	}
	return parseChanges(fields(out))
}

// parseChanges reads what git diff-tree -z prints: a commit's name, then for each file a line ":MODES OIDS STATUS" with
// as many colons as the commit has parents, then its path.
func parseChanges(parts []string) ([]Change, error) {
	var changes []Change
	commit := ""
	for i := 0; i < len(parts); i++ {
		raw := strings.TrimLeft(parts[i], ":")
		parents := len(parts[i]) - len(raw)
		if parents == 0 {
			commit = parts[i]
			continue
		}
		words := strings.Split(raw, " ")
		i++
		if len(words) != 2*(parents+1)+1 || i == len(parts) {
			return nil, fmt.Errorf("git lists %.100q, which is no change", parts[i-1])
		}
		mode, oid := words[parents], words[2*parents+1]
		if mode != "000000" {
			changes = append(changes, Change{commit, Entry{Path: parts[i], Mode: mode, Oid: oid}})
		}
	}
	return changes, nil
}
