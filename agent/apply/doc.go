// Package apply owns one pass over a service: server-side apply, pruning, hooks and the inventory.
//
// It refuses to know where objects come from: no bundle, renderer, hub or repository is visible from here. What a service
// owns stands in the cluster (agent/inventory), so that any engine can go on where another was killed; what is live is
// known from watches (agent/watchcache), so that a pass over a service that is as it was left sends no request at all.
//
// One pass goes like this. When every object that the inventory names is as the last pass left it, and the render and the
// policies are those that were carried out completely, the pass is over before it began (apply.go). Else the render is asked
// for. Every object is given its identity by discovery and its turn by its annotations (plan.go). What is new is written to
// the inventory, so that nothing is ever created that no inventory names. Then stage follows stage and wave follows wave
// (stages.go): hooks are created once (hooks.go), objects applied several at a time (patch.go, conflict.go), Namespaces and
// CustomResourceDefinitions as barriers (barrier.go). Where something must become healthy first, the pass ends and says so:
// but for new definitions to be served it never waits, whoever called it does so again when the watches tell of a change. Only
// when every object was accepted are those deleted that the render no longer holds (prune.go), within a budget; last, the
// inventory is written down to the truth.
//
// Rules that the code keeps, in order of weight:
//
//   - An object is deleted only when the inventory names it, its uid is the one that was applied, its label still
//     names the service, and the render it is missing from was complete and applied without one error.
//   - A Namespace, CustomResourceDefinition, PersistentVolume or PersistentVolumeClaim is deleted only when the live object
//     says so, whether it is an object of the render or a hook.
//   - An object whose label names another service is not touched, unless that service's own render gives it up, or nobody
//     asks for that service any more.
//   - A hook runs once for each revision, however often the engine is killed; for a removal, once for each removal.
//   - One object's failure stops nothing but what cannot exist without that object.
package apply
