// Package arch owns the tests that hold docs/ to the code.
//
// It knows the form of the documents, never the system they describe: which rooms there are, what each may import and
// what a program never links stands in the tables of docs/architecture.md; this package reads those tables, reads the
// import clauses of every Go file, and reports each difference in either direction. There is nothing to import here.
package arch
