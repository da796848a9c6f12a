package manual

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

// tree is a program with one noun, a verb, something hidden and a topic.
func tree() *cobra.Command {
	run := func(*cobra.Command, []string) {}
	root := &cobra.Command{Use: "plural", Short: "Run fleets", Run: run}
	root.PersistentFlags().StringP("output", "o", "", "`FORMAT` of results")
	root.AddGroup(&cobra.Group{ID: "fleet", Title: "Fleet"})
	root.SetHelpCommandGroupID("fleet")
	noun := &cobra.Command{Use: "thing", Aliases: []string{"th"}, Short: "Look after things", GroupID: "fleet", Run: run}
	verb := &cobra.Command{
		Use: "list [NAME...]", Short: "List things", Run: run, Example: "  plural thing list\n  plural thing list -o json",
		Long: "List things, such as <a_b> or *.\n\n  one   this\n  two   that",
	}
	verb.Flags().Bool("all", false, "old ones too")
	noun.AddCommand(verb, &cobra.Command{Use: "secret", Short: "x", Hidden: true, Run: run})
	root.AddCommand(noun, &cobra.Command{Use: "words", Short: "What words mean", Long: "Words. They are few.\n\n  a  b"})
	return root
}

func TestReferenceHasAPageForEachNounAndTopic(t *testing.T) {
	got := map[string]string{}
	for _, p := range Reference(tree()) {
		got[p.Name] = strings.TrimPrefix(string(p.Text), note)
	}
	want := map[string]string{
		"commands/README.md": "# Commands\n\nRun fleets.\n\n## Fleet\n\n| command | |\n|---|---|\n" +
			"| [plural thing](thing.md) | Look after things |\n| [plural thing list](thing.md#plural-thing-list) | List things |\n" +
			"\n## Topics\n\n| topic | |\n|---|---|\n| [plural help words](../help/words.md) | What words mean |\n" +
			"\n## Flags of every command\n\n```\n-o, --output FORMAT   FORMAT of results\n```\n",
		"commands/thing.md": "# plural thing\n\nLook after things.\n\nUsage:\n\n```\nplural thing [flags]\n```\n\nAlso called:\n\n```\nth\n```\n" +
			"\n## plural thing list\n\nList things, such as \\<a_b> or \\*.\n\n```\none   this\ntwo   that\n```\n" +
			"\nUsage:\n\n```\nplural thing list [NAME...] [flags]\n```\n\nFlags:\n\n```\n--all   old ones too\n```\n" +
			"\nExamples:\n\n```\nplural thing list\nplural thing list -o json\n```\n",
		"help/words.md": "# Words\n\nThey are few.\n\n```\na  b\n```\n",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestManHasAPageForEachCommand(t *testing.T) {
	var names []string
	for _, p := range Man(tree(), "1.2.3") {
		names = append(names, p.Name)
		if p.Name != "plural-thing-list.1" {
			continue
		}
		text := string(p.Text)
		for _, want := range []string{
			`.TH "PLURAL-THING-LIST" "1" "" "plural 1.2.3" "Plural"`, "plural-thing-list - List things", ".SH SYNOPSIS", "such as <a_b> or *",
			"--all", ".SH EXAMPLES", "plural thing list -o json", "plural-thing(1)",
		} {
			if !strings.Contains(strings.ReplaceAll(text, `\-`, "-"), want) {
				t.Errorf("no %q in\n%s", want, text)
			}
		}
	}
	if diff := cmp.Diff([]string{"plural.1", "plural-thing.1", "plural-thing-list.1"}, names); diff != "" {
		t.Error(diff)
	}
}

func TestPagesAreWrittenIntoAFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	if err := write(dir, Reference(tree())); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "commands", "thing.md")); err != nil || len(text) == 0 {
		t.Error(err)
	}
}
