package order

// readCLIUtils reads the words of kustomize, cli-utils and what is built on them.
func (r *reader) readCLIUtils(turn *Turn) {
	if r.word("cli-utils.sigs.k8s.io/on-remove", "keep") != "" {
		turn.NoPrune, turn.Keep = true, true
	}
	if r.word("client.lifecycle.config.k8s.io/deletion", "detach") != "" {
		turn.NoPrune, turn.Keep = true, true
	}
	if r.word("client.lifecycle.config.k8s.io/mutation", "ignore") != "" {
		turn.Once = true
	}
	// Any other value means yes, also for kustomize.
	if local, found := r.text("config.kubernetes.io/local-config"); found && local != "false" {
		turn.LocalOnly = true
	}
	const mutation = "config.kubernetes.io/apply-time-mutation"
	if value, found := r.text(mutation); found {
		r.fail(mutation, value, "no such annotation: values of live objects are not copied into others here")
	}
	const annotation = "config.kubernetes.io/depends-on"
	entries, _ := r.words(annotation)
	r.readDependencies(turn, annotation, entries, parseDependency)
}
