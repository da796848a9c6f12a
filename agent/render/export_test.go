package render

// Confine lets the tests stand behind the walls that a child raises.
func Confine() error { return confine(Limits{}.orDefaults()) }
