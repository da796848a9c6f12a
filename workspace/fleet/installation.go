package fleet

// The types below say what a fleet has of packages, and where packages are found.

// CatalogRef is a catalog that packages are found in: a folder of a git Source, or a Source of OCI.
type CatalogRef struct {
	Name string `yaml:"name" json:"name"`
	// Source is the name of a Source of git or OCI. Empty: the installation repo itself.
	Source string `yaml:"source,omitempty" json:"source,omitempty"`
	// Path is the folder that holds the packages, for git alone. Empty means the root.
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
func (i *Installation) Place(field string) Position { return place(i.Fields, field, i.Position) }

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
	Policy string `yaml:"policy,omitempty" json:"policy,omitempty"`
	// Windows are the times at which an upgrade may begin. None: any time.
	Windows []Window `yaml:"windows,omitempty" json:"windows,omitempty"`
	// After are installations of the same package that must be healthy at a version before this one gets it: canaries.
	After []string `yaml:"after,omitempty" json:"after,omitempty"`
	// Soak is how long those must have been healthy at it: "1h". Empty means not at all.
	Soak string `yaml:"soak,omitempty" json:"soak,omitempty"`
	// Deadline is how long an upgrade may take to become healthy before it is taken back: "30m". Empty means thirty minutes.
	Deadline string `yaml:"deadline,omitempty" json:"deadline,omitempty"`
	// Skip are versions that are never proposed.
	Skip []string `yaml:"skip,omitempty" json:"skip,omitempty" scalar:"number"`
	// Propose is commit or pullRequest. Empty means commit.
	Propose string `yaml:"propose,omitempty" json:"propose,omitempty"`
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
	Days []string `yaml:"days,omitempty" json:"days,omitempty"`
	// From and To are times of the day: "22:00". A window whose To is not after its From ends on the next day.
	From string `yaml:"from" json:"from"`
	To   string `yaml:"to" json:"to"`
	// Zone is a name of the IANA time zone database, such as Europe/Berlin. Empty means UTC.
	Zone string `yaml:"zone,omitempty" json:"zone,omitempty"`
}
