package v1

// Revision is one step in the history of the installation repo: a commit of its branch, with what it changed. A merge is one step.
type Revision struct {
	Commit
	Email string `json:"email,omitempty"`
	// Files are the first of those that it changed: of everything, or of what the one service is made of. LeftOut counts the others.
	Files   []string `json:"files,omitempty"`
	LeftOut int      `json:"leftOut,omitempty"`
	// Incomplete: it changed more than was compared, so there may be other files than these, or any at all.
	Incomplete bool `json:"incomplete,omitempty"`
	Merge      bool `json:"merge,omitempty"`
	// Reverts is the commit that this one takes back, RevertedBy the later one that takes this back.
	Reverts    string `json:"reverts,omitempty"`
	RevertedBy string `json:"revertedBy,omitempty"`
	// Result is what became of it; empty where nobody knows.
	Result Result `json:"result,omitempty"`
	// Refusal is the first reason why it was refused while it was the newest, as far as the hub knows: it forgets it when it
	// restarts.
	Refusal *Problem `json:"refusal,omitempty"`
}

// Outcome is the result as people are told it: what was refused is called so, also after a newer commit is served in its place.
func (r *Revision) Outcome() Result {
	if r.Refusal != nil {
		return ResultRefused
	}
	return r.Result
}

// Result is what became of a commit. It is one of the constants below.
type Result string

// Results of commits.
const (
	// ResultCurrent: it is what is served now, of what is asked about.
	ResultCurrent Result = "current"
	// ResultSuperseded: what is served now came out of it. Whether it was served itself before is not known.
	ResultSuperseded Result = "superseded"
	// ResultRefused: it is newer than what is served, and the newest commit is refused.
	ResultRefused Result = "refused"
	// ResultWaiting: it is newer than what is served, and has its turn to come.
	ResultWaiting Result = "waiting"
)

// Words are all results.
func (Result) Words() []string {
	return []string{string(ResultCurrent), string(ResultSuperseded), string(ResultRefused), string(ResultWaiting)}
}
