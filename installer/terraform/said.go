package terraform

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// message is a line of what terraform says when asked for JSON.
type message struct {
	Level      string      `json:"@level"`
	Message    string      `json:"@message"`
	Type       string      `json:"type"`
	Diagnostic *diagnostic `json:"diagnostic"`
	Hook       struct {
		Elapsed float64 `json:"elapsed_seconds"`
	} `json:"hook"`
}

// tells says whether a message is what a person waits for; all of them stand in the log.
func (m *message) tells() bool {
	switch m.Type {
	case "planned_change", "resource_drift", "change_summary": // the summary of the plan has them
		return false
	case "refresh_complete", "provision_start", "provision_progress", "provision_complete":
		return false
	case "apply_progress": // comes every ten seconds
		return int(m.Hook.Elapsed)%60 == 0
	}
	return true
}

// diagnostic is an error or a warning.
type diagnostic struct {
	Severity string `json:"severity"`
	Summary  string `json:"summary"`
	Detail   string `json:"detail"`
	Address  string `json:"address"`
	Range    *place `json:"range"`
	Snippet  *struct {
		Values []struct {
			Traversal string `json:"traversal"`
		} `json:"values"`
	} `json:"snippet"`
}

// place is where in a module a diagnostic points.
type place struct {
	Filename string `json:"filename"`
	Start    struct {
		Line int `json:"line"`
	} `json:"start"`
}

// onLine is how a diagnostic without JSON names its place.
var onLine = regexp.MustCompile(`^on (\S+) line (\d+)`)

// hearing tells the log what terraform says, and whoever waits what matters of it; and it gathers the errors.
type hearing struct {
	log    *journal
	known  bool // what is planned has been told already
	errors []diagnostic
	other  []string // what is no JSON, of which a crash is made
}

// json hears a line of a command that was asked for JSON.
func (h *hearing) json(line []byte) {
	var m message
	if json.Unmarshal(line, &m) != nil {
		h.other = append(h.other, string(line))
		h.log.note(string(line))
		return
	}
	switch {
	case m.Type == "version" || m.Type == "outputs" || m.Type == "refresh_start" || h.known && m.Type == "planned_change":
	case m.Diagnostic == nil && m.tells():
		h.log.say(m.Message)
	case m.Diagnostic == nil:
		h.log.note(m.Message)
	default:
		text := strings.TrimSpace(m.Message)
		if m.Diagnostic.Address != "" {
			text += ": " + m.Diagnostic.Address
		}
		text += "\n" + m.Diagnostic.Detail
		if m.Diagnostic.Severity == "error" { // what becomes the error is told by that
			h.errors = append(h.errors, *m.Diagnostic)
			h.log.note(text)
			return
		}
		h.log.warn(text)
	}
}

// text hears a line of a command that has no JSON: errors there begin a line, and go on to the next one. Of the rest the log
// gets the steps, and not the advice for people who run terraform by hand.
func (h *hearing) text(line []byte) {
	text := strings.TrimRight(strings.TrimLeft(string(line), "│╷╵ "), "\r ")
	summary, isError := strings.CutPrefix(text, "Error: ")
	if isError || len(h.errors) > 0 && h.errors[len(h.errors)-1].Severity == "error" ||
		strings.HasPrefix(text, "Initializing ") || strings.HasPrefix(text, "- ") && len(h.errors) == 0 {
		h.log.note(text)
	}
	if strings.HasPrefix(text, "- Installing ") && len(h.errors) == 0 && h.log.told != nil { // which may take minutes
		h.log.told(strings.TrimPrefix(text, "- "))
	}
	switch {
	case isError:
		h.errors = append(h.errors, diagnostic{Severity: "error", Summary: summary})
	case strings.HasPrefix(text, "Warning: "):
		h.errors = append(h.errors, diagnostic{Severity: "warning"}) // what follows is its own
	case len(h.errors) > 0:
		last := &h.errors[len(h.errors)-1]
		last.Detail += text + "\n"
		if on := onLine.FindStringSubmatch(text); on != nil && last.Range == nil {
			last.Range = &place{Filename: on[1]}
			last.Range.Start.Line, _ = strconv.Atoi(on[2]) // digits
		}
	}
}

// failure is the error that the first of terraform's makes, with what secret things it says hidden.
func (h *hearing) failure(during string, exit error) error {
	var first *diagnostic
	count, told := 0, map[string]bool{} // init says the same twice
	for i, d := range h.errors {
		if d.Severity != "error" {
			continue
		}
		if again := d.Summary + "\n" + strings.TrimSpace(d.Detail); !d.empty() && !told[again] {
			told[again] = true
			count++
		}
		if first == nil || first.empty() {
			first = &h.errors[i]
		}
	}
	if first == nil {
		begin := h.other[:min(len(h.other), 8)] // of a crash, say, before its goroutines
		return &FailedError{During: during, Summary: exit.Error(), Detail: h.log.clean(strings.Join(begin, " "))}
	}
	if first.Summary == "Error acquiring the state lock" {
		if locked := lockOf(first.Detail); locked != nil {
			return locked
		}
	}
	detail := strings.TrimSpace(first.Detail)
	return &FailedError{
		During: during, Address: h.log.clean(first.Address), Place: first.place(), More: max(count-1, 0),
		Summary: h.log.clean(first.Summary), Detail: h.log.clean(detail),
		Solution: fix(first.Summary + "\n" + strings.Join(strings.Fields(detail), " ")),
	}
}

// empty says of an error that it only says that there are others.
func (d *diagnostic) empty() bool {
	return d.Summary == "execution halted" || strings.Contains(d.Summary, " encountered problems during initialisation")
}

// place is where the author of the module, or who gave the inputs, has to look.
func (d *diagnostic) place() string {
	if d.Range == nil || d.Address != "" {
		return ""
	}
	if d.Range.Filename != inputsFile && d.Range.Filename != secretsFile {
		return fmt.Sprintf("%s:%d", d.Range.Filename, d.Range.Start.Line)
	}
	if d.Snippet != nil {
		for _, value := range d.Snippet.Values {
			if name, ok := strings.CutPrefix(value.Traversal, "var."); ok {
				return "input " + name
			}
		}
	}
	return "inputs"
}

// lockOf reads what terraform tells of who holds a lock; nil where it tells nothing.
func lockOf(detail string) *LockedError {
	told := map[string]string{}
	for line := range strings.Lines(detail) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && told[name] == "" {
			told[name] = strings.TrimSpace(value)
		}
	}
	if other := regexp.MustCompile(`already locked: ID=(\S+)`).FindStringSubmatch(detail); other != nil {
		return &LockedError{ID: other[1], Who: "somebody"} // the rest is what was asked for, and not what is there
	}
	if told["ID"] == "" {
		return nil
	}
	since, _ := time.Parse("2006-01-02 15:04:05.999999999 -0700 MST", told["Created"]) // zero says that it is not known
	return &LockedError{
		ID: told["ID"], Who: cmp.Or(told["Who"], "somebody"), Operation: told["Operation"], Path: told["Path"], Since: since,
	}
}

// fix is what would help against what terraform says, where that is known.
func fix(said string) string {
	for _, known := range []struct{ said, fix string }{
		{
			"could not connect to|no such host|connection refused|i/o timeout|request discovery document",
			"check the network and its proxy, or let TF_CLI_CONFIG_FILE name a mirror of the providers",
		},
		{
			"was not found in any of the search locations",
			"put that provider into the mirror which the CLI configuration names, or let the module ask for one that is there",
		},
		{
			"does not have a provider named|no available releases match",
			"correct the source and version in the module's required_providers",
		},
		{
			"Unsupported Terraform Core version|Unsupported OpenTofu Core version",
			"install a version that the module's required_version allows, or let PLURAL_TERRAFORM name one",
		},
		{
			"Module not installed|Unreadable module directory",
			"a step's modules lie below its own path, or name a registry's version",
		},
		{
			"No valid credential sources|could not find default credentials|unable to build authorizer|ExpiredToken|" +
				"could not acquire access token|Please run 'az login'|building account",
			"log in to the cloud with its own program, or set the variables that its provider reads, and run again",
		},
		{"Saved plan is stale", "somebody has changed the state since the plan: run again"},
		{"Instance cannot be destroyed", "the module protects it: remove its prevent_destroy first, if that is meant"},
	} {
		if regexp.MustCompile(known.said).MatchString(said) {
			return known.fix
		}
	}
	return ""
}
