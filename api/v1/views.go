package v1

// View is one list as the people of a fleet look at it, from views.yaml of the installation repo.
type View struct {
	// Key is the digit that goes there: 1 to 9.
	Key int `json:"key"`
	// Name says what is seen there, on one line.
	Name string `json:"name"`
	// List is what is listed: fleet, which is deployments, clusters, services, sources, packages or events.
	List string `json:"list"`
	// Filter picks rows, as the filter of a list does. A key of it may be none of that list's.
	Filter string `json:"filter,omitempty"`
}

// ViewList is by key, and empty where the commit that is served has none.
type ViewList struct {
	Items []View `json:"items"`
	// Problems are why the file is not read; then there are no views.
	Problems []Problem `json:"problems,omitempty"`
}
