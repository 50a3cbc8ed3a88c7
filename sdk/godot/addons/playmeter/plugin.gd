@tool
extends EditorPlugin
## Adds the client as the autoload `Playmeter`.


func _enable_plugin() -> void:
	add_autoload_singleton("Playmeter", "res://addons/playmeter/playmeter.gd")


func _disable_plugin() -> void:
	remove_autoload_singleton("Playmeter")
