package known

import (
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
)

// Deployment is one service on one cluster: a row of the fleet, of which there may be hundreds of thousands.
type Deployment struct {
	*Place
	*Work
	Phase   v1.Phase
	Version string
	Message string
	// Token is what a person may agree to, where something is Held.
	Token          string
	Ready, Objects int32
	// Held counts deletions that wait for a person.
	Held      int32
	Suspended bool
}

// Place is what rows of one cluster share. It does not change: a cluster that changes has another.
type Place struct {
	Cluster string
	Tags    map[string]string
	// Reported is when its agent last reported, as far as is known.
	Reported time.Time
	// Silent says that what is known of it is as old as Reported.
	Silent bool
}

// Work is what rows of one service share. It does not change.
type Work struct{ Service, Namespace, Source string }

// ID is CLUSTER/SERVICE.
func (d *Deployment) ID() string { return d.Cluster + "/" + d.Service }
