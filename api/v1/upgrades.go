package v1

import "time"

// Upgrade is where one installation of a package stands: what the fleet has of it, what there is, and why it does or does not
// move.
type Upgrade struct {
	Installation string `json:"installation"`
	Package      string `json:"package"`
	Catalog      string `json:"catalog"`
	// Version is what the fleet has.
	Version string `json:"version"`
	// Newest is the newest version that the installation's range admits; empty when that is the one that the fleet has.
	Newest string `json:"newest,omitempty"`
	// Target is the version that the hub goes to next; empty when it goes nowhere.
	Target string `json:"target,omitempty"`
	// Policy is manual, patch or minor.
	Policy string       `json:"policy"`
	State  UpgradeState `json:"state"`
	// Reasons are why it is not at Newest, the first that counts first.
	Reasons []UpgradeReason `json:"reasons,omitempty"`
	// With are the installations that have to move in the same commit.
	With []string `json:"with,omitempty"`
	// From, Commit and Since are those of the last move by the hub, as long as it is the last.
	From   string     `json:"from,omitempty"`
	Commit string     `json:"commit,omitempty"`
	Since  *time.Time `json:"since,omitempty"`
	// Branch is where a proposal lies that somebody has to merge, URL its pull request.
	Branch string `json:"branch,omitempty"`
	URL    string `json:"url,omitempty"`
}

// UpgradeState is how far an upgrade got.
type UpgradeState string

// States of upgrades.
const (
	// UpgradeCurrent: there is nothing newer.
	UpgradeCurrent UpgradeState = "current"
	// UpgradeAvailable: there is something newer, which is for a person to take.
	UpgradeAvailable UpgradeState = "available"
	// UpgradeWaiting: it goes on by itself, as Reasons say.
	UpgradeWaiting UpgradeState = "waiting"
	// UpgradeBlocked: it goes on when a person does something.
	UpgradeBlocked UpgradeState = "blocked"
	// UpgradeReady: it is the hub's next commit.
	UpgradeReady UpgradeState = "ready"
	// UpgradeProposed: a branch waits for somebody to merge it.
	UpgradeProposed UpgradeState = "proposed"
	// UpgradeRolling: it is committed, and not healthy everywhere yet.
	UpgradeRolling UpgradeState = "rolling"
	// UpgradeReverted: it was taken back.
	UpgradeReverted UpgradeState = "reverted"
)

// Words are all states.
func (UpgradeState) Words() []string {
	return []string{
		string(UpgradeCurrent), string(UpgradeAvailable), string(UpgradeWaiting), string(UpgradeBlocked), string(UpgradeReady),
		string(UpgradeProposed), string(UpgradeRolling), string(UpgradeReverted),
	}
}

// UpgradeReason is one thing that an upgrade waits for, or that keeps it.
type UpgradeReason struct {
	// Code is for programs.
	Code UpgradeCode `json:"code"`
	// Message is a sentence, Fix what to do about it; empty: wait.
	Message string `json:"message"`
	Fix     string `json:"fix,omitempty"`
	// Installation, Version, Service and Cluster are what the sentence is about, as far as it is about such.
	Installation string `json:"installation,omitempty"`
	Version      string `json:"version,omitempty"`
	Service      string `json:"service,omitempty"`
	Cluster      string `json:"cluster,omitempty"`
	// Until is when the reason ends by itself, where that is known.
	Until *time.Time `json:"until,omitempty"`
}

// UpgradeCode is what kind a reason is of.
type UpgradeCode string

// Kinds of reasons.
const (
	// ReasonManual: the policy leaves upgrades to people.
	ReasonManual UpgradeCode = "manual"
	// ReasonPolicy: the step is larger than the policy takes.
	ReasonPolicy UpgradeCode = "policy"
	// ReasonApproval: the version breaks something, or wants agreement, and nobody has agreed.
	ReasonApproval UpgradeCode = "approval"
	// ReasonSkipped: the version is among those that are skipped.
	ReasonSkipped UpgradeCode = "skipped"
	// ReasonUnfit: no versions of all that is installed fit together with it.
	ReasonUnfit UpgradeCode = "unfit"
	// ReasonNewPackage: it needs a package that is not installed.
	ReasonNewPackage UpgradeCode = "newPackage"
	// ReasonDeploy: it runs something that only people run, such as terraform.
	ReasonDeploy UpgradeCode = "deploy"
	// ReasonConflict: what people changed in the package and what the new version changes cannot be merged.
	ReasonConflict UpgradeCode = "conflict"
	// ReasonPlan: the new version cannot be put together, such as for a question without an answer.
	ReasonPlan UpgradeCode = "plan"
	// ReasonCatalog: the catalog cannot be read.
	ReasonCatalog UpgradeCode = "catalog"
	// ReasonReadOnly: the hub does not commit.
	ReasonReadOnly UpgradeCode = "readOnly"
	// ReasonBehind: what is served is not the newest commit, or the repository's history or a branch in it cannot be read now.
	ReasonBehind UpgradeCode = "behind"
	// ReasonWindow: it is outside of its window.
	ReasonWindow UpgradeCode = "window"
	// ReasonOrder: another installation moves first.
	ReasonOrder UpgradeCode = "order"
	// ReasonUnhealthy: something that has to be healthy before is not.
	ReasonUnhealthy UpgradeCode = "unhealthy"
	// ReasonCanary: a canary is not at the version, or not healthy at it.
	ReasonCanary UpgradeCode = "canary"
	// ReasonSoak: a canary has not been healthy for long enough.
	ReasonSoak UpgradeCode = "soak"
	// ReasonReview: a branch waits for somebody to merge it.
	ReasonReview UpgradeCode = "review"
	// ReasonRolling: clusters are taking the new version up.
	ReasonRolling UpgradeCode = "rolling"
	// ReasonReverted: it was not healthy in time, or failed its tests.
	ReasonReverted UpgradeCode = "reverted"
)

// Words are all kinds.
func (UpgradeCode) Words() []string {
	all := []UpgradeCode{
		ReasonManual, ReasonPolicy, ReasonApproval, ReasonSkipped, ReasonUnfit, ReasonNewPackage, ReasonDeploy, ReasonConflict, ReasonPlan,
		ReasonCatalog, ReasonReadOnly, ReasonBehind, ReasonWindow, ReasonOrder, ReasonUnhealthy, ReasonCanary, ReasonSoak, ReasonReview,
		ReasonRolling, ReasonReverted,
	}
	words := make([]string, len(all))
	for i, code := range all {
		words[i] = string(code)
	}
	return words
}
