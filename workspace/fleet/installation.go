package fleet

import (
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // a zone must mean the same on every machine that reads the repository

	"github.com/pluralsh/plural/internal/yamlstrict"
)

// The types below say what a fleet has of packages, and where packages are found.

// CatalogRef is a catalog that packages are found in: a folder of a git Source, or a Source of OCI.
type CatalogRef struct {
	// Name is how installations call the catalog.
	Name string `yaml:"name" json:"name"`
	// Source is the name of a Source of git or OCI.
	Source string `yaml:"source" json:"source"`
	// Path is the folder of a git source that holds the packages. Empty means the root.
	Path string `yaml:"path,omitempty" json:"path,omitempty"`
}

// BuiltinCatalog is the name of the catalog that the program brings along. It is asked last.
const BuiltinCatalog = "builtin"

// Installation is packages/NAME/package.yaml: a package that this fleet has. Its name is that of its folder.
type Installation struct {
	TypeMeta `yaml:",inline"`
	Metadata Metadata         `yaml:"metadata" json:"metadata"`
	Spec     InstallationSpec `yaml:"spec,omitempty" json:"spec,omitempty"`
	Position Position         `yaml:"-" json:"-"`
	// Fields gives the line and column of fields by dotted path.
	Fields map[string]Position `yaml:"-" json:"-"`
}

// Place is where a field was written by its dotted path, or else what would hold it.
func (i *Installation) Place(field string) Position {
	return yamlstrict.Place(i.Fields, field, i.Position)
}

// PackageName is the name of the package that is installed.
func (i *Installation) PackageName() string {
	if i.Spec.Package != "" {
		return i.Spec.Package
	}
	return i.Metadata.Name
}

// InstallationSpec says which package is wanted, where it runs, and how it moves to newer versions.
type InstallationSpec struct {
	// Package is the name of the package. Empty means the installation's name.
	Package string `yaml:"package,omitempty" json:"package,omitempty"`
	// Catalog is the one that the package comes from. Empty: the first that has it.
	Catalog string `yaml:"catalog,omitempty" json:"catalog,omitempty"`
	// Version is a range of versions. Empty means any stable one.
	Version string `yaml:"version,omitempty" json:"version,omitempty" scalar:"number"`
	// Clusters are those that the package's services run on. Empty means the management cluster.
	Clusters Selector `yaml:"clusters,omitempty" json:"clusters,omitempty"`
	// Protected has the installation refuse to be removed.
	Protected bool `yaml:"protected,omitempty" json:"protected,omitempty"`
	// Approved are versions whose breaking changes somebody has agreed to.
	Approved []string `yaml:"approved,omitempty" json:"approved,omitempty" scalar:"number"`
	// Upgrade is how the hub moves the installation to newer versions.
	Upgrade Upgrade `yaml:"upgrade,omitempty" json:"upgrade,omitempty"`
}

// Upgrade is a policy of moving to newer versions.
type Upgrade struct {
	// Policy is manual, patch or minor: the largest step that is taken unasked. Empty means manual.
	Policy string `yaml:"policy,omitempty" json:"policy,omitempty" enum:"manual,patch,minor" default:"manual"`
	// Windows are the times at which an upgrade may begin. None: any time.
	Windows []Window `yaml:"windows,omitempty" json:"windows,omitempty"`
	// After are installations that are upgraded before this one, and healthy: canaries.
	After []string `yaml:"after,omitempty" json:"after,omitempty"`
	// Soak is how long those must have been healthy at it: "1h". Empty means not at all.
	Soak string `yaml:"soak,omitempty" json:"soak,omitempty"`
	// Deadline is how long an upgrade may take to become healthy before it is taken back: "30m". Empty means fifteen minutes.
	Deadline string `yaml:"deadline,omitempty" json:"deadline,omitempty" default:"15m"`
	// Skip are versions that are never proposed.
	Skip []string `yaml:"skip,omitempty" json:"skip,omitempty" scalar:"number"`
	// Propose is commit or pullRequest. Empty means commit.
	Propose string `yaml:"propose,omitempty" json:"propose,omitempty" enum:"commit,pullRequest" default:"commit"`
}

// Policies of Upgrade.
const (
	UpgradeManual = "manual"
	UpgradePatch  = "patch"
	UpgradeMinor  = "minor"
)

// Ways in which an upgrade is proposed.
const (
	ProposeCommit      = "commit"
	ProposePullRequest = "pullRequest"
)

// Window is a time of the week.
type Window struct {
	// Days are names such as Mon. Empty means every day.
	Days []string `yaml:"days,omitempty" json:"days,omitempty" enum:"Sun,Mon,Tue,Wed,Thu,Fri,Sat"`
	// From is the time of the day at which it opens: "22:00".
	From string `yaml:"from" json:"from"`
	// To is when it closes. A window whose To is not after its From ends on the next day.
	To string `yaml:"to" json:"to"`
	// Zone is a name of the IANA time zone database, such as Europe/Berlin. Empty means UTC.
	Zone string `yaml:"zone,omitempty" json:"zone,omitempty" default:"UTC"`
}

// Contains says whether a moment lies in the window.
func (w *Window) Contains(t time.Time) bool {
	zone, err := time.LoadLocation(w.Zone)
	from, fromOK := clock(w.From)
	to, toOK := clock(w.To)
	if err != nil || !fromOK || !toOK {
		return false // refused when it was read
	}
	local := t.In(zone)
	now := time.Duration(local.Hour())*time.Hour + time.Duration(local.Minute())*time.Minute
	switch {
	case from < to:
		return now >= from && now < to && w.on(local.Weekday())
	case now >= from:
		return w.on(local.Weekday())
	}
	return now < to && w.on((local.Weekday()+6)%7) // it began the day before
}

func (w *Window) on(day time.Weekday) bool {
	return len(w.Days) == 0 || slices.Contains(w.Days, dayName(day))
}

// dayName is how a window calls a day: its first three letters.
func dayName(day time.Weekday) string { return day.String()[:3] }

// clock reads a time of the day; 24:00 is the end of one.
func clock(text string) (time.Duration, bool) {
	if text == "24:00" {
		return 24 * time.Hour, true
	}
	if hours, _, ok := strings.Cut(text, ":"); !ok || len(hours) != 2 {
		return 0, false
	}
	t, err := time.Parse("15:04", text)
	if err != nil {
		return 0, false
	}
	return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute, true
}

// DefaultDeadline is how long an upgrade may take where nothing else is said.
const DefaultDeadline = 15 * time.Minute

// SoakTime is Soak, as it was checked when the fleet was read.
func (u *Upgrade) SoakTime() time.Duration {
	soak, err := time.ParseDuration(u.Soak)
	if err != nil {
		return 0
	}
	return soak
}

// DeadlineTime is Deadline, as it was checked when the fleet was read.
func (u *Upgrade) DeadlineTime() time.Duration {
	deadline, err := time.ParseDuration(u.Deadline)
	if err != nil {
		return DefaultDeadline
	}
	return deadline
}

// Open says whether an upgrade may begin at a moment.
func (u *Upgrade) Open(t time.Time) bool {
	return len(u.Windows) == 0 || slices.ContainsFunc(u.Windows, func(w Window) bool { return w.Contains(t) })
}
