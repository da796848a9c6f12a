// Package apply owns the step from rendered objects to live ones.
//
// It refuses to know where objects come from: no bundle, renderer, hub or repository is visible from here. It also
// keeps nothing between two calls but what the API server serves; what a service owns stands in the cluster, in one
// ConfigMap per service, so that any engine can go on where another was killed.
//
// One pass goes like this. The inventory is read. Every object is given its identity by discovery (plan.go). One
// metadata list per kind tells what the service already has in the cluster (live.go). The union of what was and what
// shall be is written to the inventory, so that nothing is ever created that no inventory names. Then the objects are
// applied rank by rank, Namespaces and CustomResourceDefinitions as barriers (order.go, barrier.go), eight at a time
// within a rank (patch.go). Only when every one of them was accepted are objects deleted that the render no longer
// holds (prune.go), within a budget; last, the inventory is written down to the truth.
//
// Rules that the code keeps, in order of weight:
//
//   - An object is deleted only when the inventory names it, its uid is the one that was applied, its label still
//     names the service, and the render it is missing from was complete, not empty, and applied without one error.
//   - An object whose label names another service is never touched.
//   - One object's failure stops nothing but what cannot exist without that object.
package apply
