// Package intake learns what the controller decides on: what jobs foretell, as agents hand it over, what files and checkpoints are, and how the cluster and
// other sites fare. It turns that into events of controller/plan and changes nothing in the world.
package intake
