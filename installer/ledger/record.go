package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// format is that of the record's file.
	format = 1
	// maxRecord bounds the record's file, in bytes; maxInstallations, maxSteps and maxLockID what it may hold.
	maxRecord        = 16 << 20
	maxInstallations = 10_000
	maxSteps         = 1_000
	maxLockID        = 253

	// recordFile is the record's file in the tree that Ref names. Beside it is a folder for what belongs to steps: sealed files.
	recordFile = "record.json"
	sealedDir  = "sealed/"
)

// Record is what was deployed of a fleet's packages, by the name of the installation.
type Record struct {
	Installations map[string]*Installation `json:"installations"`
	// Lock is who works on it now, nil for nobody.
	Lock *Lock `json:"lock,omitempty"`
}

// Installation is what was deployed of one package.
type Installation struct {
	Package string `json:"package"`
	Version string `json:"version"`
	// PayloadDigest is that of the payload as it was deployed.
	PayloadDigest string `json:"payloadDigest,omitempty"`
	// DependsOn are the installations that this one needs: it goes before they do.
	DependsOn []string `json:"dependsOn,omitempty"`
	Protected bool     `json:"protected,omitempty"`
	// Steps are those that have been carried out.
	Steps map[string]*Step `json:"steps"`
}

// Step is one step as it was carried out last, with what it takes to undo it.
type Step struct {
	Kind string `json:"kind"`
	// Digest is that of all that went into the step; another one means that it is due again.
	Digest string `json:"digest,omitempty"`
	// Parts are the digests that Digest is made of, by what they are of, the tool by its name and version, and beside them the type
	// of the backend that has the state of terraform, where one has it.
	Parts    map[string]string `json:"parts,omitempty"`
	Needs    []string          `json:"needs,omitempty"`
	Finished time.Time         `json:"finished"`
	// By is who did it, Commit the installation repo's at that moment.
	By     string `json:"by,omitempty"`
	Commit string `json:"commit,omitempty"`
	// Services are the services that the step put somewhere, each with its clusters, and Namespaces where their inventories lie.
	Services   map[string][]string `json:"services,omitempty"`
	Namespaces map[string]string   `json:"namespaces,omitempty"`
	// State is the file of the record that holds terraform's state, sealed.
	State string `json:"state,omitempty"`
	// Product is what carried out the module: terraform, tofu.
	Product string `json:"product,omitempty"`
	// Version is the product's.
	Version string `json:"version,omitempty"`
}

// Lock says who works on what the record is of.
type Lock struct {
	ID string `json:"id"`
	// Holder is a person as git knows them: "Ada <ada@example.com>".
	Holder string `json:"holder"`
	// Host is the machine, PID the process there.
	Host  string    `json:"host"`
	PID   int       `json:"pid"`
	Since time.Time `json:"since"`
	// Purpose is the command, Commit the installation repo's commit that it works on.
	Purpose string `json:"purpose,omitempty"`
	Commit  string `json:"commit,omitempty"`
}

// stored is the record's file.
type stored struct {
	Format int `json:"format"`
	Record
}

// FormatError says that the record is of a form that this program does not know.
type FormatError struct{ Format int }

func (e *FormatError) Error() string {
	return fmt.Sprintf("the record of deployments has format %d, this program knows %d: a newer plural wrote it", e.Format, format)
}

// Fix is what mends it.
func (e *FormatError) Fix() string { return "use the newest plural that works on this fleet" }

// decode reads the record's file.
func decode(text []byte) (*Record, error) {
	if len(text) > maxRecord {
		return nil, fmt.Errorf("read %s: it is larger than %d MiB", recordFile, maxRecord>>20)
	}
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, fmt.Errorf("read %s: %w", recordFile, err)
	}
	if head.Format != format {
		return nil, fmt.Errorf("read %s: %w", recordFile, &FormatError{head.Format})
	}
	var s stored
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields() // what is not known would be lost with the next change
	if err := decoder.Decode(&s); err != nil {
		return nil, fmt.Errorf("read %s: %w", recordFile, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read %s: something follows the record", recordFile)
	}
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("read %s: %w", recordFile, err)
	}
	if s.Installations == nil {
		s.Installations = map[string]*Installation{}
	}
	return &s.Record, nil
}

// encode writes the record's file. Equal records give equal files.
func (r *Record) encode() ([]byte, error) {
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("write %s: %w", recordFile, err)
	}
	text, err := json.MarshalIndent(stored{format, *r}, "", "  ")
	if err == nil && len(text) >= maxRecord {
		err = fmt.Errorf("it is larger than %d MiB", maxRecord>>20)
	}
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", recordFile, err)
	}
	return append(text, '\n'), nil
}

// check refuses what no run of this program records: names become paths and lines on a terminal elsewhere, commits are opened.
func (r *Record) check() error {
	if len(r.Installations) > maxInstallations {
		return fmt.Errorf("it names more than %d installations", maxInstallations)
	}
	for name, installation := range r.Installations {
		if err := checkName(name); err != nil {
			return fmt.Errorf("installation: %w", err)
		}
		if installation == nil {
			return fmt.Errorf("installation %q is empty", name)
		}
		if len(installation.Steps) > maxSteps {
			return fmt.Errorf("installation %q has more than %d steps", name, maxSteps)
		}
		for step, s := range installation.Steps {
			if err := s.check(step); err != nil {
				return fmt.Errorf("installation %q: %w", name, err)
			}
		}
	}
	if r.Lock != nil && (r.Lock.ID == "" || len(r.Lock.ID) > maxLockID) {
		return fmt.Errorf("its lock has the id %.300q", r.Lock.ID)
	}
	return nil
}

func (s *Step) check(name string) error {
	if err := checkName(name); err != nil {
		return fmt.Errorf("step: %w", err)
	}
	if s == nil {
		return fmt.Errorf("step %q is empty", name)
	}
	if s.Commit != "" && !isCommit(s.Commit) {
		return fmt.Errorf("step %q: %.300q is no commit's id", name, s.Commit)
	}
	if s.State != "" && (!strings.HasPrefix(s.State, sealedDir) || !fs.ValidPath(s.State)) {
		return fmt.Errorf("step %q: file %q does not lie below %s", name, s.State, sealedDir)
	}
	return nil
}

func checkName(name string) error {
	if len(validation.IsDNS1123Label(name)) > 0 {
		return fmt.Errorf("%.300q is no name", name)
	}
	return nil
}

// isCommit says whether text is the whole id of a commit, as git writes it by SHA-1 or by SHA-256.
func isCommit(text string) bool {
	return (len(text) == 40 || len(text) == 64) && strings.Trim(text, "0123456789abcdef") == ""
}

// keeps are the files of the record that belong to any of its steps.
func (r *Record) keeps() map[string]bool {
	files := map[string]bool{}
	for _, installation := range r.Installations {
		for _, s := range installation.Steps {
			files[s.State] = true
		}
	}
	return files
}
