package filter

// Terms are the filter's terms, each as a filter of its own: the filter picks what all of them pick.
func (f *Filter[T]) Terms() []Filter[T] {
	terms := make([]Filter[T], len(f.terms))
	for i := range f.terms {
		terms[i] = Filter[T]{f.terms[i : i+1 : i+1]}
	}
	return terms
}
