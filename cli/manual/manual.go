// Package manual owns the manual pages and reference made from the command tree.
//
// It refuses to know any single command.
//
// A command becomes one section: what it does, how it is called, its flags, its examples. Reference puts the sections of a noun
// and its verbs on one page of Markdown, with an index by group; Man makes a page in roff of each. Nothing in a page depends on the
// machine or the day, so that two runs of the same program write the same bytes.
package manual

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const (
	// width is that of pages, in columns.
	width = 100
	// note stands on top of what people should not edit.
	note = "<!-- Written by `make generate` from the commands themselves. -->\n\n"
)

// Page is a file, named by its path with slashes.
type Page struct {
	Name string
	Text []byte
}

// Reference is what docs/commands and docs/help hold: an index, a page for each command below root, and one for each help topic.
func Reference(root *cobra.Command) []Page {
	pages := []Page{{"commands/README.md", []byte(index(root))}}
	for _, c := range root.Commands() {
		switch {
		case c.IsAdditionalHelpTopicCommand() && c.Long != "":
			pages = append(pages, Page{"help/" + c.Name() + ".md", []byte(note + topic(c))})
		case c.IsAvailableCommand() && !c.IsAdditionalHelpTopicCommand():
			pages = append(pages, Page{"commands/" + c.Name() + ".md", []byte(note + sections(c, 1))})
		}
	}
	return pages
}

// Man is a page of section 1 for each command, root among them. Version is the program's.
func Man(root *cobra.Command, version string) []Page {
	var pages []Page
	each(root, func(c *cobra.Command) {
		name := strings.ReplaceAll(c.CommandPath(), " ", "-")
		text := fmt.Sprintf("%% %q \"1\" \"\" %q \"Plural\"\n# NAME\n%s - %s\n\n", strings.ToUpper(name), "plural "+version, name, escape(c.Short))
		text += section(c, "# ")
		text += seeAlso(c)
		pages = append(pages, Page{name + ".1", md2man.Render([]byte(text))})
	})
	return pages
}

// each visits the commands that help shows, a noun before its verbs.
func each(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() && !c.IsAdditionalHelpTopicCommand() {
			each(c, visit)
		}
	}
}

// index lists the commands by group, and the topics.
func index(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString(note + "# Commands\n\n" + escape(root.Short) + ".\n")
	for _, group := range root.Groups() {
		fmt.Fprintf(&b, "\n## %s\n\n| command | |\n|---|---|\n", group.Title)
		for _, c := range root.Commands() {
			if c.GroupID != group.ID || !c.IsAvailableCommand() || c.IsAdditionalHelpTopicCommand() {
				continue
			}
			each(c, func(c *cobra.Command) {
				top := strings.Fields(c.CommandPath())[1]
				fmt.Fprintf(&b, "| [%s](%s.md%s) | %s |\n", c.CommandPath(), top, anchor(c), escape(c.Short))
			})
		}
	}
	b.WriteString("\n## Topics\n\n| topic | |\n|---|---|\n")
	for _, c := range root.Commands() {
		if c.IsAdditionalHelpTopicCommand() && c.Long != "" {
			fmt.Fprintf(&b, "| [plural help %s](../help/%s.md) | %s |\n", c.Name(), c.Name(), escape(c.Short))
		}
	}
	fmt.Fprintf(&b, "\n## Flags of every command\n\n%s", block(root.PersistentFlags().FlagUsagesWrapped(width)))
	return b.String()
}

// anchor is where a verb stands on its noun's page.
func anchor(c *cobra.Command) string {
	if c.Parent() == c.Root() {
		return ""
	}
	return "#" + strings.ReplaceAll(c.CommandPath(), " ", "-")
}

// topic is a page of a text that belongs to no command.
func topic(c *cobra.Command) string {
	title, rest, _ := strings.Cut(c.Long, "\n\n")
	first, more, ok := strings.Cut(title, ". ")
	if ok {
		rest = more + "\n\n" + rest
	}
	return "# " + strings.TrimSuffix(first, ".") + "\n\n" + prose(rest)
}

// sections are those of a command and all below it.
func sections(c *cobra.Command, level int) string {
	text := strings.Repeat("#", level) + " " + c.CommandPath() + "\n\n" + section(c, "")
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && !sub.IsAdditionalHelpTopicCommand() {
			text += "\n" + sections(sub, 2)
		}
	}
	return text
}

// section says all of one command. With a heading its parts stand under headings that begin so, as in a man page.
func section(c *cobra.Command, heading string) string {
	var b strings.Builder
	title := func(man, markdown string) {
		switch {
		case heading != "":
			b.WriteString("\n" + heading + man + "\n")
		case markdown != "":
			b.WriteString("\n" + markdown + ":\n\n")
		}
	}
	describe := func() {
		text := c.Long
		if text == "" {
			text = c.Short + "."
		}
		title("DESCRIPTION", "")
		b.WriteString(prose(text))
	}
	if heading == "" {
		describe()
	}
	title("SYNOPSIS", "Usage")
	c.InitDefaultHelpFlag()
	c.InheritedFlags() // which takes over those of the parents: the line says [flags] for them too
	b.WriteString(block(c.UseLine()))
	if heading != "" {
		describe()
	}
	if len(c.Aliases) > 0 {
		title("ALIASES", "Also called")
		b.WriteString(block(strings.Join(c.Aliases, ", ")))
	}
	if own := ownFlags(c); own.HasAvailableFlags() {
		title("OPTIONS", "Flags")
		b.WriteString(block(own.FlagUsagesWrapped(width)))
	}
	if c.Example != "" {
		title("EXAMPLES", "Examples")
		b.WriteString(block(c.Example))
	}
	return b.String()
}

// ownFlags are the flags that help shows with the command, without help's: root's are those of every command.
func ownFlags(c *cobra.Command) *pflag.FlagSet {
	own := pflag.NewFlagSet(c.Name(), pflag.ContinueOnError)
	flags := c.LocalNonPersistentFlags()
	if !c.HasParent() {
		flags = c.PersistentFlags()
	}
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" {
			own.AddFlag(f)
		}
	})
	return own
}

// seeAlso names the pages around a command's.
func seeAlso(c *cobra.Command) string {
	var names []string
	if c.HasParent() {
		names = append(names, c.Parent().CommandPath())
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && !sub.IsAdditionalHelpTopicCommand() {
			names = append(names, sub.CommandPath())
		}
	}
	for i, name := range names {
		names[i] = "**" + strings.ReplaceAll(name, " ", "-") + "(1)**"
	}
	return "\n# SEE ALSO\n" + strings.Join(names, ", ") + "\n"
}

// block is text that stands as it is, without what it is indented by as a whole.
func block(text string) string {
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	indent := width
	for _, line := range lines {
		if strings.TrimSpace(line) != "" {
			indent = min(indent, len(line)-len(strings.TrimLeft(line, " ")))
		}
	}
	for i, line := range lines {
		lines[i] = strings.TrimRight(line[min(indent, len(line)):], " ")
	}
	return "```\n" + strings.Join(lines, "\n") + "\n```\n"
}

// prose is the text of a help page as Markdown: paragraphs with an indented line stand as they are.
func prose(text string) string {
	paragraphs := slices.DeleteFunc(strings.Split(strings.Trim(text, "\n"), "\n\n"), func(p string) bool { return strings.TrimSpace(p) == "" })
	for i, p := range paragraphs {
		if strings.HasPrefix(p, " ") || strings.Contains(p, "\n ") {
			paragraphs[i] = strings.TrimRight(block(p), "\n")
			continue
		}
		paragraphs[i] = wrap(escape(strings.Join(strings.Fields(p), " ")))
	}
	return strings.Join(paragraphs, "\n\n") + "\n"
}

// escape keeps Markdown from reading anything into a text.
func escape(text string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "`", "\\`", "<", `\<`, "[", `\[`, "|", `\|`).Replace(text)
}

// wrap breaks a text into lines of at most width columns, where it has blanks.
func wrap(text string) string {
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		n := len([]rune(word))
		switch {
		case i == 0:
		case column+1+n > width:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}
