package ledger

import "time"

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
	PayloadDigest string   `json:"payloadDigest,omitempty"`
	Clusters      []string `json:"clusters,omitempty"`
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
	// Parts are the digests that Digest is made of, by what they are of, and the tool by its name and version.
	Parts    map[string]string `json:"parts,omitempty"`
	Needs    []string          `json:"needs,omitempty"`
	Finished time.Time         `json:"finished"`
	// By is who did it, Commit the installation repo's at that moment.
	By     string `json:"by,omitempty"`
	Commit string `json:"commit,omitempty"`
	// Services are the services that the step put somewhere, each with its clusters, and Namespaces where their inventories lie.
	Services   map[string][]string `json:"services,omitempty"`
	Namespaces map[string]string   `json:"namespaces,omitempty"`
	// State is the file of the record that holds terraform's state, sealed; Inputs the one with what the module was given.
	State  string `json:"state,omitempty"`
	Inputs string `json:"inputs,omitempty"`
	// Module is the folder of the record that holds the module as it was carried out, Product what carried it out: terraform, tofu.
	Module  string `json:"module,omitempty"`
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
