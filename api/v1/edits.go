package v1

// EditRequest is what goes with suspend, resume, ack and undo.
type EditRequest struct {
	// Token is what is agreed to, for ack.
	Token string `json:"token,omitempty"`
	// Message is the commit's; empty: one is made.
	Message string `json:"message,omitempty"`
	// Base is the commit that a dry run was made on: where what it showed is not what would be committed now, nothing is.
	Base string `json:"base,omitempty"`
	// Confirm is what a dry run asks for by the same name.
	Confirm string `json:"confirm,omitempty"`
}

// SetRequest is what a service is to have. What is not named stays as it is.
type SetRequest struct {
	// Parameters are by name; null takes one away.
	Parameters map[string]*string `json:"parameters,omitempty"`
	// Values are Helm values by their path, such as image.tag; null takes one away. A backslash stands before a dot in a name.
	Values map[string]any `json:"values,omitempty"`
	// ValueTexts are Helm values too, as a person types them: 3 is a number, true a bool, [a, b] a list, and 1.10 a text.
	ValueTexts map[string]string `json:"valueTexts,omitempty"`
	// Ref is a branch, tag or commit of git, or a version or range; empty takes it away.
	Ref *string `json:"ref,omitempty"`
	// Clusters say where it runs, in place of all that says so now.
	Clusters *ClusterSelector `json:"clusters,omitempty"`
	// Message, Base and Confirm are those of EditRequest; what is confirmed is the service's name.
	Message string `json:"message,omitempty"`
	Base    string `json:"base,omitempty"`
	Confirm string `json:"confirm,omitempty"`
}

// ClusterSelector says on which clusters a service runs: those that are named and have the tags. One of both has to be there.
type ClusterSelector struct {
	Names       []string          `json:"names,omitempty"`
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
}

// UpgradeRequest takes an installation of a package to another version.
type UpgradeRequest struct {
	// Version is that, in full; whoever names it agrees to what it breaks. Empty: the newest that needs nobody's agreement.
	Version string `json:"version,omitempty"`
	// Message, Base and Confirm are those of EditRequest; what is confirmed is the installation's name.
	Message string `json:"message,omitempty"`
	Base    string `json:"base,omitempty"`
	Confirm string `json:"confirm,omitempty"`
}

// Edited is the commit that an edit became, or would become.
type Edited struct {
	// Commit is empty when everything was so already, and in a dry run.
	Commit string `json:"commit,omitempty"`
	// Branch is the one that has the commit. Where that takes no pushes, it is a new one that somebody has to merge, and URL its pull
	// request, if one could be opened.
	Branch string `json:"branch,omitempty"`
	URL    string `json:"url,omitempty"`
	// DryRun says that nothing was committed. Without Files there is nothing to change.
	DryRun bool `json:"dryRun,omitempty"`
	// Base is the commit that it is made on, and Message its own.
	Base    string `json:"base,omitempty"`
	Message string `json:"message,omitempty"`
	// Files are what the commit changes, by path, in a dry run; LeftOut counts those beyond what an answer holds.
	Files   []FileDiff `json:"files,omitempty"`
	LeftOut int        `json:"leftOut,omitempty"`
	// Warnings are sentences that somebody should read before.
	Warnings []string `json:"warnings,omitempty"`
	// Confirm is what has to be sent as confirm with this edit, since it takes services off clusters. Empty: nothing.
	Confirm string `json:"confirm,omitempty"`
	// Version is the one that an upgrade goes to.
	Version string `json:"version,omitempty"`
}

// FileDiff is what a commit changes in one file.
type FileDiff struct {
	// File is the path from the repository's root.
	File string `json:"file"`
	// Diff is a unified one. Empty: Hidden says why it is not shown.
	Diff   string `json:"diff,omitempty"`
	Hidden string `json:"hidden,omitempty"`
}
