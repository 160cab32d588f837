"""The words from which captions.py describes pictures: people, clothes, places, things, and what people and animals do."""

from __future__ import annotations

__all__ = [
    "ACTIONS",
    "ASIDES",
    "CHEERS",
    "CLOTHES",
    "COLOURS",
    "FAMILIES",
    "HOW_LARGE",
    "IRREGULAR",
    "LANDMARKS",
    "LOOKS",
    "MOUNTS",
    "MOVES",
    "OFTEN",
    "ONLOOKERS",
    "ORIGINS",
    "OUTSIDE",
    "PEOPLE",
    "PLACES",
    "PLAIN",
    "POSES",
    "POSITIONS",
    "SCENERY",
    "SIZES",
    "STAY",
    "THINGS",
    "TRAITS",
    "VARIANTS",
    "VIEWS",
    "WISHES",
    "YOUNG",
]

# Nouns are written as in pronoun_words.py: English:French:gender, then the plurals where they are not formed with -s.
PEOPLE = {
    "man": "man:homme:m:men:hommes man:homme:m:men:hommes man:homme:m:men:hommes man:homme:m:men:hommes man:homme:m:men:hommes man:homme:m:men:hommes man:homme:m:men:hommes guy:homme:m:guys:hommes gentleman:monsieur:m:gentlemen:messieurs",
    "woman": "woman:femme:f:women:femmes woman:femme:f:women:femmes woman:femme:f:women:femmes woman:femme:f:women:femmes woman:femme:f:women:femmes woman:femme:f:women:femmes woman:femme:f:women:femmes lady:dame:f:ladies:dames",
    "boy": "boy:garçon:m boy:garçon:m boy:garçon:m",
    "girl": "girl:fille:f girl:fille:f",
    "child": "child:enfant:m:children:enfants child:enfant:m:children:enfants kid:enfant:m toddler:bambin:m",
    "someone": "person:personne:f:people:personnes teenager:adolescent:m teenage_boy:adolescent:m teenage_girl:adolescente:f adult:adulte:m",
    "baby": "baby:bébé:m:babies:bébés toddler:bambin:m infant:nourrisson:m",
    "role": """police_officer:policier:m soldier:soldat:m tourist:touriste:m student:étudiant:m nurse:infirmière:f doctor:médecin:m
        waiter:serveur:m waitress:serveuse:f:waitresses:serveuses bride:mariée:f groom:marié:m hiker:randonneur:m commuter:voyageur:m
        photographer:photographe:m businessman:homme_d'affaires:m:businessmen:hommes_d'affaires clown:clown:m monk:moine:m priest:prêtre:m
        firefighter:pompier:m pedestrian:piéton:m customer:client:m sailor:marin:m passenger:passager:m
        grandmother:grand-mère:f:grandmothers:grands-mères grandfather:grand-père:m:grandfathers:grands-pères
        teacher:professeur:m schoolboy:écolier:m schoolgirl:écolière:f spectator:spectateur:m protester:manifestant:m""",
    "worker": """worker:ouvrier:m construction_worker:ouvrier_du_bâtiment:m:construction_workers:ouvriers_du_bâtiment
        carpenter:charpentier:m painter:peintre:m mechanic:mécanicien:m plumber:plombier:m welder:soudeur:m roofer:couvreur:m
        bricklayer:maçon:m electrician:électricien:m gardener:jardinier:m craftsman:artisan:m:craftsmen:artisans blacksmith:forgeron:m""",
    "police": "police_officer:policier:m policeman:policier:m:policemen:policiers security_guard:agent_de_sécurité:m:security_guards:agents_de_sécurité soldier:soldat:m",
    "fireman": "firefighter:pompier:m fireman:pompier:m:firemen:pompiers",
    "cook": "chef:chef:m cook:cuisinier:m chef:chef_cuisinier:m:chefs:chefs_cuisiniers baker:boulanger:m butcher:boucher:m pastry_chef:pâtissier:m",
    "vendor": "vendor:vendeur:m street_vendor:vendeur_ambulant:m:street_vendors:vendeurs_ambulants merchant:marchand:m farmer:fermier:m shopkeeper:commerçant:m",
    "fisherman": "fisherman:pêcheur:m:fishermen:pêcheurs",
    "musician": """musician:musicien:m guitarist:guitariste:m singer:chanteur:m drummer:batteur:m violinist:violoniste:m pianist:pianiste:m
        street_musician:musicien_de_rue:m:street_musicians:musiciens_de_rue rock_singer:chanteur_de_rock:m:rock_singers:chanteurs_de_rock""",
    "dancer": "dancer:danseur:m dancer:danseuse:f ballerina:ballerine:f performer:artiste:m acrobat:acrobate:m gymnast:gymnaste:f",
    "footballer": "soccer_player:joueur_de_football:m:soccer_players:joueurs_de_football goalkeeper:gardien_de_but:m:goalkeepers:gardiens_de_but player:joueur:m",
    "hitter": "baseball_player:joueur_de_baseball:m:baseball_players:joueurs_de_baseball batter:batteur:m pitcher:lanceur:m",
    "tennis": "tennis_player:joueur_de_tennis:m:tennis_players:joueurs_de_tennis tennis_player:joueuse_de_tennis:f:tennis_players:joueuses_de_tennis",
    "basket": "basketball_player:basketteur:m basketball_player:joueur_de_basket:m:basketball_players:joueurs_de_basket",
    "rugby": "football_player:joueur_de_football_américain:m:football_players:joueurs_de_football_américain rugby_player:joueur_de_rugby:m:rugby_players:joueurs_de_rugby",
    "hockey": "hockey_player:*hockeyeur:m:hockey_players:hockeyeurs skater:patineur:m figure_skater:patineuse_artistique:f:figure_skaters:patineuses_artistiques",
    "cyclist": "cyclist:cycliste:m mountain_biker:vététiste:m",
    "motorcyclist": "motorcyclist:motard:m biker:motard:m",
    "skateboarder": "skateboarder:skateur:m skater:skateur:m",
    "surfer": "surfer:surfeur:m windsurfer:véliplanchiste:m",
    "swimmer": "swimmer:nageur:m diver:plongeur:m lifeguard:sauveteur:m kayaker:kayakiste:m rower:rameur:m",
    "climber": "climber:grimpeur:m mountaineer:alpiniste:m rock_climber:grimpeur:m:rock_climbers:grimpeurs",
    "skier": "skier:skieur:m snowboarder:snowboardeur:m",
    "runner": "runner:coureur:m athlete:athlète:m sprinter:sprinteur:m jogger:joggeur:m",
    "fighter": "boxer:boxeur:m wrestler:lutteur:m fencer:escrimeur:m martial_artist:combattant:m",
    "rider": "rider:cavalier:m cowboy:cow-boy:m jockey:jockey:m horsewoman:cavalière:f:horsewomen:cavalières",
    "dog": """dog:chien:m dog:chien:m dog:chien:m dog:chien:m puppy:chiot:m:puppies:chiots poodle:caniche:m greyhound:lévrier:m
        German_shepherd:berger_allemand:m:German_shepherds:bergers_allemands Labrador:labrador:m bulldog:bouledogue:m terrier:terrier:m""",
    "cat": "cat:chat:m cat:chat:m kitten:chaton:m",
    "horse": "horse:cheval:m:horses:chevaux pony:poney:m:ponies:poneys donkey:âne:m foal:poulain:m",
    "bird": "bird:oiseau:m:birds:oiseaux duck:canard:m seagull:mouette:f pigeon:pigeon:m swan:cygne:m goose:oie:f:geese:oies parrot:perroquet:m heron:*héron:m",
    "farm": "cow:vache:f sheep:mouton:m:sheep:moutons goat:chèvre:f lamb:agneau:m:lambs:agneaux bull:taureau:m:bulls:taureaux llama:lama:m deer:cerf:m:deer:cerfs",
    "wild": "elephant:éléphant:m tiger:tigre:m lion:lion:m giraffe:girafe:f zebra:zèbre:m camel:chameau:m:camels:chameaux rhinoceros:rhinocéros:m:rhinoceroses:rhinocéros",
    "ape": "monkey:singe:m squirrel:écureuil:m bear:ours:m:bears:ours raccoon:raton_laveur:m:raccoons:ratons_laveurs",
}

# Traits: English=masculine=feminine; < stands before the noun, ! never changes (see agree in pronouns.py).
TRAITS = {
    "man": """young=<jeune;old=<vieux=<vieille;elderly=âgé=âgée;older=plus âgé=plus âgée;middle-aged=!d'âge mûr;tall=<grand=<grande;
        bearded=barbu=barbue;bald=chauve;blond=blond=blonde;dark-haired=brun=brune;smiling=souriant=souriante;shirtless=!torse nu;
        barefoot=!pieds nus;muscular=musclé=musclée;thin=mince;
        tattooed=tatoué=tatouée;homeless=!sans-abri;gray-haired=!aux cheveux gris;young=<jeune;young=<jeune;
        long-haired=!aux cheveux longs;red-haired=roux=rousse;well-dressed=!bien habillé=!bien habillée""",
    "woman": """young=<jeune;old=<vieux=<vieille;elderly=âgé=âgée;older=plus âgé=plus âgée;middle-aged=!d'âge mûr;tall=<grand=<grande;
        blond=blond=blonde;blonde=blond=blonde;dark-haired=brun=brune;smiling=souriant=souriante;barefoot=!pieds nus;thin=mince;
        pregnant=!enceinte=!enceinte;
        beautiful=<beau=<belle;gray-haired=!aux cheveux gris;red-haired=roux=rousse;young=<jeune;young=<jeune;elegant=élégant=élégante""",
    "boy": """young=<jeune;little=<petit=<petite;small=<petit=<petite;blond=blond=blonde;dark-haired=brun=brune;smiling=souriant=souriante;
        barefoot=!pieds nus;shirtless=!torse nu;happy=joyeux=joyeuse;wet=mouillé=mouillée;
        young=<jeune;little=<petit=<petite""",
    "girl": """young=<jeune;little=<petit=<petite;small=<petit=<petite;blond=blond=blonde;dark-haired=brun=brune;smiling=souriant=souriante;
        barefoot=!pieds nus;happy=joyeux=joyeuse;little=<petit=<petite""",
    "child": """young=<jeune;little=<petit=<petite;small=<petit=<petite;blond=blond=blonde;smiling=souriant=souriante;barefoot=!pieds nus;
        happy=joyeux=joyeuse;crying=!en pleurs""",
    "baby": "smiling=souriant=souriante;happy=joyeux=joyeuse;crying=!en pleurs;sleeping=endormi=endormie;little=<petit=<petite",
    "someone": "young=<jeune;smiling=souriant=souriante;tired=fatigué=fatiguée",
    "role": "young=<jeune;smiling=souriant=souriante;tired=fatigué=fatiguée;old=<vieux=<vieille",
    "dog": """brown=marron;black=noir=noire;white=blanc=blanche;black and white=!noir et blanc;brown and white=!marron et blanc;tan=beige;
        gray=gris=grise;spotted=tacheté=tachetée;wet=mouillé=mouillée;golden=doré=dorée;hairy=poilu=poilue;yellow=jaune;black and brown=!noir et marron""",
    "cat": "black=noir=noire;white=blanc=blanche;gray=gris=grise;striped=tigré=tigrée;orange=roux=rousse;black and white=!noir et blanc;fluffy=!à poils longs",
    "horse": "brown=marron;black=noir=noire;white=blanc=blanche;gray=gris=grise;young=<jeune",
    "bird": "white=blanc=blanche;gray=gris=grise;black=noir=noire;colorful=coloré=colorée",
    "farm": "brown=marron;black=noir=noire;white=blanc=blanche;young=<jeune;black and white=!noir et blanc",
    "ape": "young=<jeune;brown=marron;small=<petit=<petite",
    "wild": "young=<jeune;old=<vieux=<vieille;huge=<énorme",
}
# Where someone is from, of all people alike and of few.
ORIGINS = "Asian=asiatique;black=noir=noire;white=blanc=blanche;African=africain=africaine;European=européen=européenne;Indian=indien=indienne"
SIZES = "small=<petit=<petite;large=<gros=<grosse;big=<gros=<grosse;little=<petit=<petite"  # of animals
HOW_LARGE = "small=<petit=<petite;large=<grand=<grande;big=<grand=<grande"  # of things

COLOURS = """red=rouge;blue=bleu=bleue;green=vert=verte;yellow=jaune;black=noir=noire;white=blanc=blanche;gray=gris=grise;brown=marron;
    orange=!orange;pink=rose;purple=violet=violette;light blue=!bleu clair;dark blue=!bleu foncé;beige=beige;red=rouge;blue=bleu=bleue;
    black=noir=noire;white=blanc=blanche;red and white=!rouge et blanc;black and white=!noir et blanc;blue and white=!bleu et blanc;
    navy blue=!bleu marine;dark green=!vert foncé;bright red=!rouge vif;turquoise=!turquoise;tan=beige;
    striped=!à rayures;plaid=!à carreaux;flowered=!à fleurs;polka-dot=!à pois;checkered=!à carreaux;colorful=coloré=colorée"""

# Clothes: + has no article in English; those of "body" can follow "en" in French. After the gender p: plural in French.
CLOTHES = {
    "body": """shirt:chemise:f shirt:chemise:f T-shirt:t-shirt:m sweater:pull:m jacket:veste:f coat:manteau:m:coats:manteaux sweatshirt:sweat-shirt:m
        uniform:uniforme:m vest:gilet:m hoodie:sweat_à_capuche:m:hoodies:sweats_à_capuche tank_top:débardeur:m raincoat:imperméable:m
        jersey:maillot:m costume:costume:m kimono:kimono:m top:top:m sports_shirt:maillot_de_sport:m:sports_shirts:maillots_de_sport""",
    "man": "suit:costume:m tuxedo:smoking:m dress_shirt:chemise_habillée:f:dress_shirts:chemises_habillées polo_shirt:polo:m",
    "woman": "dress:robe:f:dresses:robes dress:robe:f:dresses:robes skirt:jupe:f blouse:chemisier:m sundress:robe_d'été:f:sundresses:robes_d'été",
    "legs": "+jeans:jean:m:+jeans:jeans +pants:pantalon:m:+pants:pantalons +shorts:short:m:+shorts:shorts +trousers:pantalon:m:+trousers:pantalons",
    "sport": "jersey:maillot:m jersey:maillot:m uniform:uniforme:m sports_shirt:maillot_de_sport:m:sports_shirts:maillots_de_sport T-shirt:t-shirt:m shirt:maillot:m +shorts:short:m:+shorts:shorts sweatshirt:sweat-shirt:m tank_top:débardeur:m",
    "swim": "swimsuit:maillot_de_bain:m:swimsuits:maillots_de_bain bathing_suit:maillot_de_bain:m:bathing_suits:maillots_de_bain wetsuit:combinaison:f",
    "work": "safety_vest:gilet_de_sécurité:m:safety_vests:gilets_de_sécurité apron:tablier:m +overalls:salopette:f:+overalls:salopettes",
    "head": """hat:chapeau:m:hats:chapeaux hat:chapeau:m:hats:chapeaux cap:casquette:f baseball_cap:casquette:f helmet:casque:m
        straw_hat:chapeau_de_paille:m:straw_hats:chapeaux_de_paille cowboy_hat:chapeau_de_cow-boy:m:cowboy_hats:chapeaux_de_cow-boy
        hard_hat:casque_de_chantier:m:hard_hats:casques_de_chantier headscarf:foulard:m:headscarves:foulards bandana:bandana:m beanie:bonnet:m turban:turban:m""",
    "worn": """+sunglasses:lunettes_de_soleil:fp:-:- +glasses:lunettes:fp:-:- +gloves:gants:mp:-:- +boots:bottes:fp:-:- +sandals:sandales:fp:-:-
        +sneakers:baskets:fp:-:- +headphones:casque_audio:m:-:- scarf:écharpe:f:scarves:écharpes tie:cravate:f backpack:sac_à_dos:m:backpacks:sacs_à_dos
        mask:masque:m +goggles:lunettes_de_protection:fp:-:- necklace:collier:m +high_heels:talons_hauts:mp:-:- life_jacket:gilet_de_sauvetage:m:life_jackets:gilets_de_sauvetage belt:ceinture:f""",
}
LOOKS = """with long hair=aux cheveux longs;with short hair=aux cheveux courts;with curly hair=aux cheveux bouclés;with brown hair=aux cheveux bruns;
    with blond hair=aux cheveux blonds;with black hair=aux cheveux noirs;with gray hair=aux cheveux gris;with a big smile=avec un grand sourire;
    with dark hair=aux cheveux foncés;with red hair=aux cheveux roux;with tattoos=avec des tatouages;with glasses=avec des lunettes;
    with a backpack=avec un sac à dos;with {carried}=avec {carried};holding {carried}=tenant {carried};with {instrument}=avec {instrument};holding {gear}=tenant {gear};holding {drink}=tenant {drink};with a mustache=avec une moustache;with a white beard=à la barbe blanche;with a ponytail=avec une queue de cheval;in sunglasses=avec des lunettes de soleil"""

THINGS = {
    "tool": """hammer:marteau:m:hammers:marteaux saw:scie:f drill:perceuse:f shovel:pelle:f broom:balai:m rake:râteau:m:rakes:râteaux bucket:seau:m:buckets:seaux
        ladder:échelle:f rope:corde:f screwdriver:tournevis:m:screwdrivers:tournevis hose:tuyau_d'arrosage:m:hoses:tuyaux_d'arrosage brush:pinceau:m:brushes:pinceaux
        wheelbarrow:brouette:f paintbrush:pinceau:m:paintbrushes:pinceaux mop:serpillière:f flashlight:lampe_de_poche:f:flashlights:lampes_de_poche wrench:clé:f:wrenches:clés""",
    "toy": """doll:poupée:f balloon:ballon:m kite:cerf-volant:m:kites:cerfs-volants teddy_bear:ours_en_peluche:m:teddy_bears:ours_en_peluche toy_car:petite_voiture:f:toy_cars:petites_voitures
        puzzle:puzzle:m hula_hoop:cerceau:m:hula_hoops:cerceaux stuffed_animal:peluche:f:stuffed_animals:peluches toy:jouet:m water_gun:pistolet_à_eau:m:water_guns:pistolets_à_eau pinwheel:moulin_à_vent:m:pinwheels:moulins_à_vent""",
    "carried": """bag:sac:m box:boîte:f:boxes:boîtes basket:panier:m suitcase:valise:f umbrella:parapluie:m briefcase:mallette:f backpack:sac_à_dos:m:backpacks:sacs_à_dos
        shopping_bag:sac_de_courses:m:shopping_bags:sacs_de_courses bottle_of_water:bouteille_d'eau:f:bottles_of_water:bouteilles_d'eau newspaper:journal:m:newspapers:journaux
        sign:pancarte:f flag:drapeau:m:flags:drapeaux bouquet_of_flowers:bouquet_de_fleurs:m:bouquets_of_flowers:bouquets_de_fleurs camera:appareil_photo:m:cameras:appareils_photo
        cell_phone:téléphone_portable:m:cell_phones:téléphones_portables microphone:micro:m plate:assiette:f tray:plateau:m:trays:plateaux purse:sac_à_main:m:purses:sacs_à_main
        banner:banderole:f blanket:couverture:f towel:serviette:f torch:torche:f:torches:torches stick:bâton:m cane:canne:f crate:caisse:f candle:bougie:f laptop:ordinateur_portable:m:laptops:ordinateurs_portables""",
    "alcohol": "beer:bière:f glass_of_wine:verre_de_vin:m:glasses_of_wine:verres_de_vin cocktail:cocktail:m glass_of_champagne:coupe_de_champagne:f:glasses_of_champagne:coupes_de_champagne",
    "drink": "cup_of_coffee:tasse_de_café:f:cups_of_coffee:tasses_de_café soda:soda:m cup_of_tea:tasse_de_thé:f:cups_of_tea:tasses_de_thé glass_of_milk:verre_de_lait:m:glasses_of_milk:verres_de_lait bottle_of_water:bouteille_d'eau:f:bottles_of_water:bouteilles_d'eau juice_box:brique_de_jus:f:juice_boxes:briques_de_jus",
    "food": """sandwich:sandwich:m:sandwiches:sandwichs slice_of_pizza:part_de_pizza:f:slices_of_pizza:parts_de_pizza ice_cream_cone:cornet_de_glace:m:ice_cream_cones:cornets_de_glace
        hot_dog:*hot-dog:m banana:banane:f apple:pomme:f cake:gâteau:m:cakes:gâteaux cookie:biscuit:m hamburger:*hamburger:m slice_of_watermelon:tranche_de_pastèque:f:slices_of_watermelon:tranches_de_pastèque
        lollipop:sucette:f donut:beignet:m salad:salade:f bowl_of_noodles:bol_de_nouilles:m:bowls_of_noodles:bols_de_nouilles bowl_of_soup:bol_de_soupe:m:bowls_of_soup:bols_de_soupe carrot:carotte:f orange:orange:f""",
    "meal": "cake:gâteau:m:cakes:gâteaux pizza:pizza:f salad:salade:f meal:repas:m:meals:repas dessert:dessert:m pie:tarte:f stew:ragoût:m pancake:crêpe:f omelette:omelette:f birthday_cake:gâteau_d'anniversaire:m:birthday_cakes:gâteaux_d'anniversaire",
    "goods": "vegetable:légume:m flower:fleur:f balloon:ballon:m newspaper:journal:m:newspapers:journaux banana:banane:f tomato:tomate:f:tomatoes:tomates necklace:collier:m hat:chapeau:m:hats:chapeaux postcard:carte_postale:f:postcards:cartes_postales shoe:chaussure:f basket:panier:m umbrella:parapluie:m apple:pomme:f watermelon:pastèque:f potato:pomme_de_terre:f:potatoes:pommes_de_terre",
    "instrument": "guitar:guitare:f violin:violon:m piano:piano:m trumpet:trompette:f flute:flûte:f accordion:accordéon:m saxophone:saxophone:m cello:violoncelle:m keyboard:clavier:m electric_guitar:guitare_électrique:f:electric_guitars:guitares_électriques banjo:banjo:m:banjos:banjos harmonica:harmonica:m tuba:tuba:m trombone:trombone:m",
    "reading": "book:livre:m newspaper:journal:m:newspapers:journaux magazine:magazine:m map:plan:m letter:lettre:f menu:menu:m comic_book:bande_dessinée:f:comic_books:bandes_dessinées",
    "vehicle": """car:voiture:f bus:bus:m:buses:bus truck:camion:m taxi:taxi:m motorcycle:moto:f van:camionnette:f tractor:tracteur:m scooter:scooter:m bicycle:vélo:m
        fire_truck:camion_de_pompiers:m:fire_trucks:camions_de_pompiers police_car:voiture_de_police:f:police_cars:voitures_de_police race_car:voiture_de_course:f:race_cars:voitures_de_course pickup_truck:pick-up:m:pickup_trucks:pick-up""",
    "cab": "car:voiture:f bus:bus:m:buses:bus truck:camion:m taxi:taxi:m van:camionnette:f tractor:tracteur:m jeep:jeep:f minivan:monospace:m convertible:décapotable:f pickup_truck:pick-up:m:pickup_trucks:pick-up ambulance:ambulance:f police_car:voiture_de_police:f:police_cars:voitures_de_police",
    "boat": "boat:bateau:m:boats:bateaux canoe:canoë:m kayak:kayak:m sailboat:voilier:m rowboat:barque:f raft:radeau:m:rafts:radeaux fishing_boat:bateau_de_pêche:m:fishing_boats:bateaux_de_pêche",
    "pushed": "stroller:poussette:f shopping_cart:caddie:m:shopping_carts:caddies wheelbarrow:brouette:f cart:charrette:f wheelchair:fauteuil_roulant:m:wheelchairs:fauteuils_roulants bicycle:vélo:m lawnmower:tondeuse:f",
    "ball": "ball:ballon:m ball:balle:f tennis_ball:balle_de_tennis:f:tennis_balls:balles_de_tennis frisbee:frisbee:m soccer_ball:ballon_de_football:m:soccer_balls:ballons_de_football",
    "chew": "stick:bâton:m tennis_ball:balle_de_tennis:f:tennis_balls:balles_de_tennis ball:balle:f toy:jouet:m bone:os:m:bones:os frisbee:frisbee:m shoe:chaussure:f branch:branche:f:branches:branches",
    "hurdle": "hurdle:*haie:f fence:barrière:f log:tronc_d'arbre:m:logs:troncs_d'arbre obstacle:obstacle:m bar:barre:f puddle:flaque_d'eau:f:puddles:flaques_d'eau stream:ruisseau:m:streams:ruisseaux",
    "built": "wall:mur:m house:maison:f fence:clôture:f roof:toit:m road:route:f shed:cabane:f",
    "seat": "chair:chaise:f bench:banc:m:benches:bancs armchair:fauteuil:m stool:tabouret:m couch:canapé:m:couches:canapés bed:lit:m swing:balançoire:f hammock:*hamac:m sofa:canapé:m",
    "furniture": "table:table:f desk:bureau:m:desks:bureaux shelf:étagère:f:shelves:étagères lamp:lampe:f dresser:commode:f wardrobe:armoire:f bookcase:bibliothèque:f chest:coffre:m",
    "decor": "mirror:miroir:m carpet:tapis:m:carpets:tapis pillow:oreiller:m curtain:rideau:m:curtains:rideaux clock:horloge:f picture:tableau:m:pictures:tableaux poster:affiche:f vase:vase:m",
    "gear": "surfboard:planche_de_surf:f:surfboards:planches_de_surf skateboard:skateboard:m racket:raquette:f bat:batte:f snowboard:snowboard:m paddle:pagaie:f fishing_rod:canne_à_pêche:f:fishing_rods:cannes_à_pêche net:filet:m trophy:trophée:m:trophies:trophées helmet:casque:m",
}

# Things that someone is next to, in front of or behind.
LANDMARKS = """fountain:fontaine:f statue:statue:f tree:arbre:m wall:mur:m fence:clôture:f building:bâtiment:m church:église:f:churches:églises shop:magasin:m store:magasin:m
    house:maison:f bridge:pont:m window:fenêtre:f door:porte:f table:table:f car:voiture:f truck:camion:m bus:bus:m:buses:bus fire:feu:m:fires:feux river:rivière:f lake:lac:m
    brick_wall:mur_de_briques:m:brick_walls:murs_de_briques shop_window:vitrine:f restaurant:restaurant:m market_stall:étal:m:market_stalls:étals tent:tente:f pool:piscine:f
    waterfall:cascade:f rock:rocher:m mailbox:boîte_aux_lettres:f:mailboxes:boîtes_aux_lettres street_lamp:lampadaire:m billboard:panneau_publicitaire:m:billboards:panneaux_publicitaires
    train:train:m boat:bateau:m:boats:bateaux tractor:tracteur:m monument:monument:m wooden_door:porte_en_bois:f:wooden_doors:portes_en_bois stone_wall:mur_de_pierre:m:stone_walls:murs_de_pierre
    bus_stop:arrêt_de_bus:m:bus_stops:arrêts_de_bus gate:portail:m hedge:*haie:f graffiti_wall:mur_couvert_de_graffitis:m:graffiti_walls:murs_couverts_de_graffitis palm_tree:palmier:m bush:buisson:m:bushes:buissons sculpture:sculpture:f
    vending_machine:distributeur:m trash_can:poubelle:f stop_sign:panneau_stop:m:stop_signs:panneaux_stop phone_booth:cabine_téléphonique:f:phone_booths:cabines_téléphoniques bakery:boulangerie:f:bakeries:boulangeries castle:château:m:castles:châteaux
    skyscraper:gratte-ciel:m windmill:moulin:m lighthouse:phare:m staircase:escalier:m pillar:pilier:m barn:grange:f motorcycle:moto:f stage:scène:f painting:tableau:m:paintings:tableaux"""

PLACES = {
    "street": """on the sidewalk=sur le trottoir;in the street=dans la rue;on a busy street=dans une rue animée;on a street corner=au coin d'une rue;in front of a shop window=devant une vitrine;
        on a city street=dans une rue de la ville;in a crowded street=dans une rue bondée;at a crosswalk=à un passage piéton;outside a restaurant=devant un restaurant;in an alley=dans une ruelle;
        in the city=en ville;outside a building=devant un bâtiment;on the side of the road=au bord de la route;on a cobblestone street=dans une rue pavée;near a bus stop=près d'un arrêt de bus;
        on the steps of a building=sur les marches d'un bâtiment;in a public square=sur une place publique;under a bridge=sous un pont;in a parking lot=sur un parking;at night=la nuit;in the rain=sous la pluie;
        downtown=dans le centre-ville;in front of a store=devant un magasin;at an intersection=à un carrefour;in a narrow street=dans une rue étroite;under a street lamp=sous un lampadaire""",
    "park": """in a park=dans un parc;in the park=dans le parc;on the grass=sur l'herbe;under a tree=sous un arbre;in a garden=dans un jardin;by a pond=au bord d'un étang;near a fountain=près d'une fontaine;
        at a playground=sur une aire de jeux;in the shade of a tree=à l'ombre d'un arbre;in the backyard=dans le jardin;on a sunny day=par une journée ensoleillée;outside=dehors;outdoors=en plein air;on a lawn=sur une pelouse;
        among the flowers=parmi les fleurs;in the tall grass=dans les hautes herbes;in the sun=au soleil""",
    "field": """in a field=dans un champ;in a grassy field=dans un champ d'herbe;in a green field=dans un champ vert;in a meadow=dans un pré;on a farm=dans une ferme;near a barn=près d'une grange;
        in the countryside=à la campagne;on a hill=sur une colline;on a dirt road=sur un chemin de terre;in a field of flowers=dans un champ de fleurs;on a dirt path=sur un sentier de terre;in the mud=dans la boue""",
    "forest": """in the woods=dans les bois;in a forest=dans une forêt;on a trail=sur un sentier;in the middle of the forest=au milieu de la forêt;by a river=au bord d'une rivière;near a campfire=près d'un feu de camp;
        among the trees=parmi les arbres;on a fallen tree=sur un arbre tombé;by a stream=au bord d'un ruisseau""",
    "beach": """at the beach=à la plage;on the beach=sur la plage;in the sand=dans le sable;by the ocean=au bord de l'océan;on a sandy beach=sur une plage de sable;near the water=près de l'eau;by the sea=au bord de la mer;
        on the rocks=sur les rochers;on a pier=sur une jetée;on the shore=sur le rivage;at sunset=au coucher du soleil;beneath a beach umbrella=sous un parasol;on a dock=sur un quai""",
    "water": "in the water=dans l'eau;in the ocean=dans l'océan;in a lake=dans un lac;in a river=dans une rivière;in a pool=dans une piscine;in a swimming pool=dans une piscine;in shallow water=dans l'eau peu profonde;in the waves=dans les vagues",
    "boating": "on a lake=sur un lac;on a river=sur une rivière;on the ocean=sur l'océan;on calm water=sur une eau calme;down the rapids=dans les rapides;near the shore=près du rivage",
    "snow": "in the snow=dans la neige;on a snowy hill=sur une colline enneigée;on a snow-covered mountain=sur une montagne enneigée;in a snowy forest=dans une forêt enneigée;on the ice=sur la glace;on a frozen lake=sur un lac gelé",
    "ice": "on the ice=sur la glace;on a frozen lake=sur un lac gelé;in a rink=dans une patinoire;on an ice rink=sur une patinoire;during a game=pendant un match;in front of the fans=devant les supporters",
    "waves": "in the ocean=dans l'océan;at the beach=à la plage;in the rough sea=dans une mer agitée;near the shore=près du rivage;at sunset=au coucher du soleil;on a sunny day=par une journée ensoleillée",
    "slope": "down a snowy slope=sur une pente enneigée;down a mountain=sur le flanc d'une montagne;in the snow=dans la neige;through the powder=dans la poudreuse;between the trees=entre les arbres",
    "mountain": "on a mountain=sur une montagne;on a cliff=sur une falaise;at the edge of a cliff=au bord d'une falaise;on top of a rock=en haut d'un rocher;at the top of a mountain=au sommet d'une montagne;in the mountains=à la montagne;on a rocky path=sur un sentier rocailleux;overlooking a valley=au-dessus d'une vallée",
    "climb": "in the mountains=à la montagne;on a sunny day=par une journée ensoleillée;with a rope=avec une corde;without a rope=sans corde;with a heavy backpack=avec un lourd sac à dos;high above the ground=très haut au-dessus du sol;at the top of a mountain=au sommet d'une montagne;near a waterfall=près d'une cascade",
    "indoor": """in a room=dans une pièce;in the living room=dans le salon;at home=à la maison;in a café=dans un café;in a restaurant=dans un restaurant;in a bar=dans un bar;in an office=dans un bureau;in a classroom=dans une salle de classe;
        in a library=dans une bibliothèque;in a store=dans un magasin;in a crowded room=dans une pièce bondée;in a waiting room=dans une salle d'attente;in a hallway=dans un couloir;in a museum=dans un musée;in a supermarket=dans un supermarché;
        in a bedroom=dans une chambre;inside a church=dans une église;in a bookstore=dans une librairie;in a hospital=dans un hôpital;by a window=près d'une fenêtre;in an airport=dans un aéroport;at a party=à une fête""",
    "transit": "on a train=dans un train;on the subway=dans le métro;on a bus=dans un bus;at a train station=dans une gare;on a train platform=sur le quai d'une gare;at a bus stop=à un arrêt de bus;in a subway station=dans une station de métro;on an escalator=sur un escalator",
    "seat": """on a bench=sur un banc;on a park bench=sur un banc public;on a chair=sur une chaise;on the ground=par terre;on the floor=par terre;at a table=à une table;on a couch=sur un canapé;on a wall=sur un mur;on the steps=sur les marches;
        on a rock=sur un rocher;on a blanket=sur une couverture;on a wooden bench=sur un banc en bois;on the curb=au bord du trottoir;on a stool=sur un tabouret;in a lawn chair=sur une chaise de jardin;in a rocking chair=dans un fauteuil à bascule;
        on the stairs=dans l'escalier;at a desk=à un bureau;in an armchair=dans un fauteuil;on the edge of a fountain=au bord d'une fontaine;on a pile of wood=sur un tas de bois;on a balcony=sur un balcon""",
    "bed": "on a bed=sur un lit;on a couch=sur un canapé;in a hammock=dans un hamac;on the grass=sur l'herbe;on a park bench=sur un banc public;on the floor=par terre;on a blanket=sur une couverture;on the beach=sur la plage;on a mattress=sur un matelas",
    "kitchen": "in a kitchen=dans une cuisine;in the kitchen=dans la cuisine;in a restaurant kitchen=dans la cuisine d'un restaurant;in a bakery=dans une boulangerie;in front of an oven=devant un four;at a barbecue=lors d'un barbecue;at a food stand=à un stand de nourriture",
    "market": "at a market=au marché;at an outdoor market=sur un marché en plein air;at a farmers market=sur un marché de producteurs;at a stand=à un stand;in the street=dans la rue;on the sidewalk=sur le trottoir;at a street fair=dans une foire de rue;at a fruit stand=à un étal de fruits",
    "stage": "on stage=sur scène;on a stage=sur une scène;in front of an audience=devant un public;in front of a crowd=devant une foule;at a concert=lors d'un concert;at a festival=lors d'un festival;in a nightclub=dans une boîte de nuit;under colored lights=sous des lumières colorées;in a theater=dans un théâtre;in a parade=dans un défilé",
    "site": "at a construction site=sur un chantier;on a scaffold=sur un échafaudage;on a ladder=sur une échelle;on a roof=sur un toit;in a workshop=dans un atelier;in a factory=dans une usine;in a garage=dans un garage;on a railway=sur une voie ferrée;by the side of the road=au bord de la route;on the roof of a house=sur le toit d'une maison",
    "pitch": "on a field=sur un terrain;in a stadium=dans un stade;during a game=pendant un match;during a match=pendant un match;in front of the crowd=devant la foule;on a grass field=sur un terrain en herbe;on a sports field=sur un terrain de sport;in the rain=sous la pluie;on a muddy field=sur un terrain boueux",
    "court": "on a court=sur un terrain;in a stadium=dans un stade;during a game=pendant un match;during a match=pendant un match;in a gym=dans un gymnase;in front of the crowd=devant la foule;on an outdoor court=sur un terrain en plein air",
    "ramp": "on a ramp=sur une rampe;at a skate park=dans un skatepark;down the stairs=dans les escaliers;on a railing=sur une rampe d'escalier;in the air=en l'air;down a ramp=sur une rampe;in an empty pool=dans une piscine vide;on a half-pipe=sur un half-pipe;over some steps=au-dessus de quelques marches",
    "path": """down the street=dans la rue;along the beach=le long de la plage;along the river=le long de la rivière;across a bridge=sur un pont;through the snow=dans la neige;through a park=dans un parc;through the woods=à travers les bois;
        along a path=le long d'un chemin;down a dirt road=sur un chemin de terre;past a store=devant un magasin;through a field=à travers un champ;along a fence=le long d'une clôture;down a hallway=dans un couloir;up a hill=sur une colline;
        past a graffiti-covered wall=devant un mur couvert de graffitis;through a puddle=dans une flaque d'eau;through a crowd=à travers une foule;on the sidewalk=sur le trottoir;along the shore=le long du rivage;through a tunnel=dans un tunnel;
        along railroad tracks=le long d'une voie ferrée;around a track=autour d'une piste;toward the camera=vers l'appareil photo;away from the camera=en s'éloignant de l'appareil photo""",
    "run": """through the grass=dans l'herbe;through the water=dans l'eau;through the snow=dans la neige;on the beach=sur la plage;across a field=à travers un champ;in the sand=dans le sable;through the woods=dans les bois;along the shore=le long du rivage;
        in the yard=dans la cour;through shallow water=dans l'eau peu profonde;on a dirt track=sur une piste de terre;through tall grass=dans les hautes herbes;through the leaves=dans les feuilles mortes;on the green grass=sur l'herbe verte""",
    "home": "on a couch=sur un canapé;on a rug=sur un tapis;on a bed=sur un lit;in a basket=dans un panier;by the window=près de la fenêtre;under a table=sous une table;in a cardboard box=dans une boîte en carton;on the floor=par terre;on a pillow=sur un oreiller",
    "sky": "over the water=au-dessus de l'eau;over the ocean=au-dessus de l'océan;in the sky=dans le ciel;over the rooftops=au-dessus des toits;above a field=au-dessus d'un champ",
    "ring": "in a ring=sur un ring;in a gym=dans un gymnase;on a mat=sur un tapis;in front of the judges=devant les juges;during a competition=pendant une compétition",
}
VIEWS = """trees=des arbres|mountains=des montagnes|the city skyline=les toits de la ville|a large building=un grand bâtiment|spectators=des spectateurs|a crowd=une foule|a lake=un lac|other people=d'autres personnes|
    a bridge=un pont|tall buildings=de grands immeubles|a blue sky=un ciel bleu|a red barn=une grange rouge|parked cars=des voitures garées|the ocean=l'océan|a white fence=une clôture blanche|
    a sunset=un coucher de soleil|several boats=plusieurs bateaux|a church=une église|snowy mountains=des montagnes enneigées|houses=des maisons|a waterfall=une cascade|palm trees=des palmiers"""

# What they do: who; where; English=French, in the infinitive. {thing} is a noun of THINGS, {his} and {son} agree with who does it,
# {e} with the subject. "être" is left out where a participle alone is better: "a man sitting" is "un homme assis".
ACTIONS = [
    ("any", "street park indoor beach field mark mark", """stand=se tenir debout;stand=être debout;stand=se tenir;wait=attendre;pose for a picture=poser pour une photo;smile=sourire;&talk=discuter;look at the camera=regarder l'appareil photo;
        laugh=rire;relax=se détendre;rest=se reposer;take a picture=prendre une photo;take pictures=prendre des photos;talk on a cell phone=parler au téléphone;talk on the phone=parler au téléphone;
        look at something=regarder quelque chose;hold {carried}=tenir {carried};carry {carried}=porter {carried};eat {food}=manger {food};drink {drink}=boire {drink};kneel=être agenouillé{e};lean against a wall=s'appuyer contre un mur;
        read {reading}=lire {reading};hold {gear}=tenir {gear};listen to music=écouter de la musique;wave at the camera=faire signe à l'appareil photo;tie {his} shoes=lacer {ses} chaussures;crouch=être accroupi{e};point at something=montrer quelque chose du doigt;
        hold a dog on a leash=tenir un chien en laisse;pet a dog=caresser un chien;look through binoculars=regarder dans des jumelles;stretch=s'étirer;blow bubbles=faire des bulles;work=travailler;&gather=se rassembler;look around=regarder autour de {lui}"""),
    ("any", "seat seat seat transit", """sit=être assis{e};sit=être assis{e};sit=être assis{e};read {reading}=lire {reading};eat {food}=manger {food};drink {drink}=boire {drink};rest=se reposer;write in a notebook=écrire dans un cahier;
        sleep=dormir;use a laptop=utiliser un ordinateur portable;knit=tricoter;draw=dessiner;&play cards=jouer aux cartes;text on {his} phone=envoyer des messages sur {son} téléphone;play the {instrument}=jouer {de the instrument};eat lunch=déjeuner"""),
    ("any", "bed", "sleep=dormir;lie=être allongé{e};rest=se reposer;take a nap=faire la sieste;nap=faire la sieste;lie on {his} back=être allongé{e} sur le dos;lie=être couché{e};relax=se détendre"),
    ("any", "path path run", """walk=marcher;walk=marcher;run=courir;jog=faire du jogging;walk {his} dog=promener {son} chien;stroll=se promener;walk=se promener;ride a bike=faire du vélo;push {pushed}=pousser {pushed};pull a suitcase=tirer une valise;
        ride a bicycle=rouler à vélo;carry {carried}=porter {carried};ride a scooter=faire de la trottinette;walk barefoot=marcher pieds nus;hurry=se dépêcher;hike=faire de la randonnée;&walk hand in hand=marcher main dans la main;drive {cab}=conduire {cab};march=défiler"""),
    ("any", "", """look out the window=regarder par la fenêtre;cross the street=traverser la rue;cross a busy street=traverser une rue animée;wait for a bus=attendre un bus;wait for a train=attendre un train;get on a bus=monter dans un bus;get out of {cab}=descendre {de cab};climb the stairs=monter les escaliers;
        walk down the stairs=descendre les escaliers;stand in front of {landmark}=se tenir devant {landmark};walk past {landmark}=passer devant {landmark};sit next to {landmark}=être assis{e} à côté {de landmark};lean against {landmark}=être appuyé{e} contre {landmark};
        look at {landmark}=regarder {landmark};take a picture of {landmark}=photographier {landmark};stand next to {vehicle}=se tenir à côté {de vehicle};stand behind {landmark}=être debout derrière {landmark};shop for vegetables=acheter des légumes;stand in line=faire la queue;
        wait in line=faire la queue;walk through a doorway=franchir une porte;look in a mirror=se regarder dans un miroir;brush {his} teeth=se brosser les dents;comb {his} hair=se peigner les cheveux;wash the dishes=faire la vaisselle;open a present=ouvrir un cadeau;
        watch television=regarder la télévision;&hold hands=se tenir par la main;&have a picnic=pique-niquer;&play chess=jouer aux échecs;play a board game=jouer à un jeu de société;play a video game=jouer à un jeu vidéo;set up a tent=monter une tente;roast marshmallows=faire griller des guimauves;
        water the plants=arroser les plantes;pick flowers=cueillir des fleurs;pick apples=cueillir des pommes;feed the ducks=nourrir les canards;feed the pigeons=donner à manger aux pigeons;fly a kite=faire voler un cerf-volant;wave a flag=agiter un drapeau;blow out candles=souffler des bougies;
        watch a parade=regarder un défilé;look through a box=fouiller dans une boîte;plant a tree=planter un arbre;rake leaves=ratisser des feuilles;spray paint on a wall=peindre un mur à la bombe;work on a computer=travailler sur un ordinateur;stare at a screen=fixer un écran;check {his} phone=consulter {son} téléphone;share a meal=partager un repas;
        &sit around a table=être assis{e} autour d'une table;&gather around a fire=se rassembler autour d'un feu;play volleyball=jouer au volley-ball;play badminton=jouer au badminton;play ping-pong=jouer au ping-pong;play golf=jouer au golf;play cricket=jouer au cricket;&play dominoes=jouer aux dominos;collect shells=ramasser des coquillages;&play tug-of-war=jouer au tir à la corde;
        get {his} face painted=se faire peindre le visage;wrap a gift=emballer un cadeau;decorate a Christmas tree=décorer un sapin de Noël;blow up a balloon=gonfler un ballon;carve a pumpkin=sculpter une citrouille;watch fireworks=regarder un feu d'artifice;ride an elephant=monter sur un éléphant;ride a camel=être à dos de chameau;ride a roller coaster=faire des montagnes russes;
        listen to a speaker=écouter un orateur;look at a painting=regarder un tableau;look at a cell phone=regarder un téléphone portable;put on {his} shoes=mettre {ses} chaussures;take off {his} jacket=enlever {sa} veste;walk through a gate=franchir un portail;stare into the distance=regarder au loin;ride a horse=monter à cheval;hold a sign=tenir une pancarte;look at a statue=regarder une statue;
        play foosball=jouer au baby-foot;play darts=jouer aux fléchettes;pull weeds=arracher les mauvaises herbes;carry firewood=porter du bois;fill a bucket with water=remplir un seau d'eau;ride an escalator=prendre un escalator;walk on crutches=marcher avec des béquilles;look under the hood of a car=regarder sous le capot d'une voiture;look at {decor}=regarder {decor};carry {decor}=porter {decor};buy {decor}=acheter {decor};look into a telescope=regarder dans un télescope;look at a map=regarder un plan;type on a keyboard=taper sur un clavier;fold clothes=plier des vêtements;hang laundry=étendre le linge;wash {vehicle}=laver {vehicle};load {vehicle}=charger {vehicle};stand under an umbrella=se tenir sous un parapluie;
        hug a friend=serrer un ami dans {ses} bras;whisper into a microphone=chuchoter dans un micro;speak into a microphone=parler dans un micro;give a speech=faire un discours;raise {his} hands=lever les mains;raise {his} arms in the air=lever les bras en l'air;
        shovel snow=déblayer la neige;build a snowman=faire un bonhomme de neige;throw a snowball=lancer une boule de neige;sweep the floor=balayer le sol;sweep the sidewalk=balayer le trottoir;clean a window=nettoyer une fenêtre;paint a picture=peindre un tableau;draw on a sheet of paper=dessiner sur une feuille de papier;
        sew a dress=coudre une robe;make pottery=faire de la poterie;play pool=jouer au billard;play bowling=jouer au bowling;ride in the back of {cab}=voyager à l'arrière {de cab};hold up a sign=brandir une pancarte;blow a whistle=souffler dans un sifflet;cut the grass=tondre la pelouse"""),
    ("adult", "street park indoor mark", """drink {alcohol}=boire {alcohol};hold {alcohol}=tenir {alcohol};smoke a cigarette=fumer une cigarette;hold a baby=tenir un bébé;carry a child on {his} shoulders=porter un enfant sur {ses} épaules;&chat=bavarder;&kiss=s'embrasser;&shake hands=se serrer la main;cook=cuisiner;&hug=s'enlacer;dance=danser;sell {many goods}=vendre {many goods};
        juggle=jongler;do yoga=faire du yoga;meditate=méditer;exercise=faire de l'exercice;lift weights=soulever des haltères;play the {instrument}=jouer {de the instrument};sing=chanter;paint a portrait=peindre un portrait;feed a baby=nourrir un bébé;celebrate=faire la fête;&toast with champagne=trinquer au champagne"""),
    ("adult", "", """shave=se raser;put on makeup=se maquiller;cut a cake=couper un gâteau;prepare {meal}=préparer {meal};chop vegetables=couper des légumes;pour wine into a glass=verser du vin dans un verre;light a candle=allumer une bougie;iron a shirt=repasser une chemise;buy {many goods} at a market=acheter {many goods} au marché;
        get {his} hair cut=se faire couper les cheveux;teach a class=donner un cours;read a book to a child=lire un livre à un enfant;push a child on a swing=pousser un enfant sur une balançoire;teach a child to swim=apprendre à nager à un enfant;fix a bicycle=réparer un vélo;repair {vehicle}=réparer {vehicle};
        change a tire=changer un pneu;climb into a helicopter=monter dans un hélicoptère;give a presentation=faire une présentation;look into a microscope=regarder dans un microscope;examine a patient=examiner un patient;get a tattoo=se faire tatouer;cut hair=couper des cheveux;board a plane=embarquer dans un avion;skydive=sauter en parachute;hang-glide=faire du deltaplane;play the bagpipes=jouer de la cornemuse;play poker=jouer au poker;do the laundry=faire la lessive;sign a document=signer un document;blow glass=souffler du verre;mow the lawn=tondre la pelouse;vacuum the carpet=passer l'aspirateur sur le tapis;push a stroller=pousser une poussette;milk a cow=traire une vache;chop wood=couper du bois;film with a video camera=filmer avec une caméra"""),
    ("child", "park beach field", """play=jouer;play with {toy}=jouer avec {toy};hold {toy}=tenir {toy};jump=sauter;jump rope=sauter à la corde;&play tag=jouer à chat;&play hide-and-seek=jouer à cache-cache;chase a dog=courir après un chien;throw {ball}=lancer {ball};kick a ball=taper dans un ballon;play with a dog=jouer avec un chien;
        do a handstand=faire le poirier;do a cartwheel=faire la roue;dance=danser;laugh=rire;cry=pleurer;spin around=tourner sur {lui}-même{s};throw leaves in the air=lancer des feuilles en l'air;blow on a dandelion=souffler sur un pissenlit;dig a hole=creuser un trou;catch {ball}=attraper {ball}"""),
    ("child", "", """slide down a slide=descendre un toboggan;swing on a swing=faire de la balançoire;jump on a trampoline=sauter sur un trampoline;play in a sandbox=jouer dans un bac à sable;build a sandcastle=construire un château de sable;run through a sprinkler=courir à travers un jet d'eau;jump into a pool=sauter dans une piscine;
        climb a tree=grimper à un arbre;jump on a bed=sauter sur un lit;splash in a puddle=patauger dans une flaque d'eau;ride a tricycle=faire du tricycle;paint with {his} fingers=peindre avec les doigts;color with crayons=colorier avec des crayons;play with blocks=jouer avec des cubes;learn to ride a bike=apprendre à faire du vélo;
        play the {instrument}=jouer {de the instrument};feed a goat=donner à manger à une chèvre;ride a pony=monter un poney;ride a merry-go-round=faire du manège;do {his} homework=faire {ses} devoirs;raise {his} hand=lever la main;hang from a rope=se balancer à une corde;ride a sled=faire de la luge;sled down a hill=descendre une colline en luge;
        swim with a snorkel=nager avec un tuba;play with a toy train=jouer avec un petit train;play with a garden hose=jouer avec un tuyau d'arrosage;hide behind {landmark}=se cacher derrière {landmark};play in a fountain=jouer dans une fontaine;play catch=jouer à la balle;bury a friend in the sand=enterrer un ami dans le sable;look through a magnifying glass=regarder dans une loupe;play on a seesaw=jouer sur une bascule;climb a rope ladder=grimper à une échelle de corde;eat with a spoon=manger avec une cuillère;drink through a straw=boire avec une paille;play in a pile of leaves=jouer dans un tas de feuilles;play on the monkey bars=jouer sur une cage à écureuil;eat cotton candy=manger de la barbe à papa;draw with chalk on the sidewalk=dessiner à la craie sur le trottoir;&splash in the water=s'éclabousser dans l'eau"""),
    ("baby", "home seat", "sleep=dormir;crawl=ramper;sit=être assis{e};smile=sourire;cry=pleurer;play with {toy}=jouer avec {toy};laugh=rire;chew on a toy=mordiller un jouet;sit in a high chair=être assis{e} dans une chaise haute;sleep in a crib=dormir dans un berceau"),
    ("worker", "site site street", """work=travailler;paint a wall=peindre un mur;dig a hole=creuser un trou;hold {tool}=tenir {tool};use {tool}=utiliser {tool};carry {tool}=porter {tool};repair {built}=réparer {built};build {built}=construire {built};cut wood=couper du bois;saw a board=scier une planche;weld metal=souder du métal;
        hammer a nail=enfoncer un clou;lay bricks=poser des briques;clean windows=nettoyer des vitres;operate a crane=manœuvrer une grue;drive a bulldozer=conduire un bulldozer;inspect pipes=inspecter des tuyaux;mix cement=mélanger du ciment;carry bricks=porter des briques;measure a piece of wood=mesurer un morceau de bois;fix {vehicle}=réparer {vehicle};climb a ladder=monter à une échelle;take a break=faire une pause;push a wheelbarrow=pousser une brouette;trim a hedge=tailler une haie;shape metal=façonner du métal;unload {vehicle}=décharger {vehicle}"""),
    ("police", "street", "direct traffic=régler la circulation;arrest a man=arrêter un homme;write a ticket=rédiger une amende;guard a building=garder un bâtiment;ride a horse=monter à cheval;patrol=patrouiller;talk to a driver=parler à un conducteur;stand guard=monter la garde"),
    ("fireman", "", "put out a fire=éteindre un incendie;spray water on a burning house=arroser une maison en feu;climb a ladder=monter à une échelle;hold a hose=tenir une lance à incendie;carry a victim=porter une victime;get out of a fire truck=descendre d'un camion de pompiers;rescue a cat=sauver un chat"),
    ("cook adult", "kitchen", """cook=cuisiner;prepare food=préparer à manger;prepare {meal}=préparer {meal};chop vegetables=couper des légumes;stir soup=remuer une soupe;stir a pot=remuer le contenu d'une casserole;grill meat=faire griller de la viande;cut meat=couper de la viande;knead dough=pétrir de la pâte;make {meal}=préparer {meal};
        slice onions=émincer des oignons;fry eggs=faire frire des œufs;peel potatoes=éplucher des pommes de terre;taste a sauce=goûter une sauce;wash vegetables=laver des légumes;decorate a cake=décorer un gâteau;cook fish=faire cuire du poisson;boil water=faire bouillir de l'eau;pour batter into a pan=verser de la pâte dans une poêle;hold a frying pan=tenir une poêle;bake bread=faire du pain"""),
    ("vendor", "market", "sell {many goods}=vendre {many goods};sell {many goods}=vendre {many goods};weigh fruit=peser des fruits;wait for customers=attendre des clients;arrange vegetables=disposer des légumes;sell fish=vendre du poisson;sell fresh fruit=vendre des fruits frais;serve a customer=servir un client;count money=compter de l'argent;display {his} goods=exposer {ses} marchandises"),
    ("fisherman adult", "boating beach", "fish=pêcher;cast a net=lancer un filet;hold a fish=tenir un poisson;catch a fish=attraper un poisson;pull in a net=remonter un filet;mend a net=réparer un filet;hold a fishing rod=tenir une canne à pêche"),
    ("musician", "stage stage street", """play the {instrument}=jouer {de the instrument};play {instrument}=jouer {de the instrument};sing=chanter;sing into a microphone=chanter dans un micro;play the drums=jouer de la batterie;perform=se produire;perform a song=interpréter une chanson;play music=jouer de la musique;entertain the crowd=divertir la foule;tune a guitar=accorder une guitare;play the bass=jouer de la basse;hold {instrument}=tenir {instrument};conduct an orchestra=diriger un orchestre"""),
    ("dancer", "stage street", "dance=danser;perform=se produire;jump in the air=sauter en l'air;do a flip=faire un salto;balance on one leg=se tenir en équilibre sur une jambe;practice a routine=répéter une chorégraphie;spin=tournoyer;perform a traditional dance=exécuter une danse traditionnelle;bow=saluer;do the splits=faire le grand écart;juggle torches=jongler avec des torches;walk on a tightrope=marcher sur une corde raide"),
    ("footballer", "pitch", "kick a ball=taper dans un ballon;play soccer=jouer au football;dribble the ball=dribbler;chase the ball=courir après le ballon;celebrate a goal=célébrer un but;head the ball=faire une tête;dive for the ball=plonger pour attraper le ballon;run toward the goal=courir vers le but;block a shot=arrêter un tir;&fight for the ball=se disputer le ballon"),
    ("hitter", "pitch", "swing a bat=manier une batte;hit the ball=frapper la balle;throw the ball=lancer la balle;catch the ball=attraper la balle;slide into base=glisser jusqu'à la base;pitch the ball=lancer la balle;hold a bat=tenir une batte;run to first base=courir vers la première base"),
    ("tennis", "court", "hit the ball=frapper la balle;serve the ball=servir;swing a racket=manier {sa} raquette;jump to hit the ball=sauter pour frapper la balle;hold a racket=tenir une raquette;play tennis=jouer au tennis;return the ball=renvoyer la balle"),
    ("basket", "court", "dribble the ball=dribbler;jump for the ball=sauter pour attraper le ballon;shoot the ball=tirer au panier;dunk the ball=faire un dunk;pass the ball=passer le ballon;play basketball=jouer au basket;block a shot=contrer un tir"),
    ("rugby", "pitch", "run with the ball=courir avec le ballon;tackle an opponent=plaquer un adversaire;throw the ball=lancer le ballon;catch the ball=attraper le ballon;dive over the line=plonger par-dessus la ligne;&huddle=se regrouper"),
    ("hockey", "ice", "skate=patiner;chase the puck=poursuivre le palet;play hockey=jouer au hockey;fall=tomber;glide=glisser;spin=tournoyer"),
    ("cyclist", "path field mountain", "ride a bike=faire du vélo;ride {his} bike=rouler à vélo;race=faire la course;turn a corner=prendre un virage;jump over a bump=sauter par-dessus une bosse;speed=rouler à toute vitesse;do a wheelie=faire une roue arrière;adjust {his} helmet=ajuster {son} casque"),
    ("motorcyclist", "path field", "ride a motorcycle=faire de la moto;race=faire la course;speed=rouler à toute vitesse;do a wheelie=faire une roue arrière;jump over a bump=sauter par-dessus une bosse;lean into a turn=se pencher dans un virage;take off {his} helmet=enlever {son} casque"),
    ("skateboarder child", "ramp street", "do a trick=faire une figure;perform a trick=exécuter une figure;jump=sauter;skateboard=faire du skateboard;ride a skateboard=faire du skateboard;do a jump=faire un saut;slide down a rail=glisser sur une rampe;fall off {his} skateboard=tomber de {son} skateboard"),
    ("surfer", "waves", "ride a wave=surfer sur une vague;surf=surfer;paddle=pagayer;carry a surfboard=porter une planche de surf;fall off a surfboard=tomber d'une planche de surf;balance on a surfboard=se tenir en équilibre sur une planche de surf;catch a wave=prendre une vague;ride a big wave=surfer sur une grosse vague;wait for a wave=attendre une vague"),
    ("swimmer child adult", "water water", "swim=nager;dive=plonger;play=jouer;float=flotter;&splash=s'éclabousser;float on an inner tube=flotter sur une bouée;jump=sauter;swim underwater=nager sous l'eau;cool off=se rafraîchir;wade=patauger;stand=être debout;play water polo=jouer au water-polo;do a belly flop=faire un plat"),
    ("swimmer adult", "boating", "paddle a canoe=pagayer dans un canoë;row a boat=ramer dans une barque;paddle=pagayer;sit in {boat}=être assis{e} dans {boat};ride in {boat}=naviguer dans {boat};steer {boat}=diriger {boat};water-ski=faire du ski nautique;sail=faire de la voile;wakeboard=faire du wakeboard"),
    ("climber adult", "climb", "climb a rock=escalader un rocher;climb a cliff=escalader une falaise;climb a mountain=escalader une montagne;hang from a rope=être suspendu{e} à une corde;climb a rock wall=escalader une paroi rocheuse;reach the top=atteindre le sommet;rappel down a cliff=descendre une falaise en rappel;look at the view=admirer la vue;hold on to a rope=s'accrocher à une corde;hike=faire de la randonnée;climb an ice wall=escalader un mur de glace"),
    ("skier child", "slope slope snow", "ski=skier;snowboard=faire du snowboard;jump=sauter;race=faire la course;fall=tomber;ski=faire du ski;turn=prendre un virage;do a jump=faire un saut"),
    ("runner", "path pitch", "run=courir;run a marathon=courir un marathon;race=faire la course;jump over {hurdle}=sauter par-dessus {hurdle};cross the finish line=franchir la ligne d'arrivée;stretch=s'étirer;do the long jump=faire un saut en longueur;throw a javelin=lancer un javelot;compete in a race=participer à une course;drink water=boire de l'eau"),
    ("fighter", "ring", "&fight=se battre;box=boxer;practice karate=faire du karaté;kick a punching bag=donner un coup de pied dans un sac de frappe;punch {his} opponent=frapper {son} adversaire;&wrestle=lutter;wear boxing gloves=porter des gants de boxe;train=s'entraîner;win a medal=gagner une médaille"),
    ("rider", "field path", "ride a horse=monter à cheval;ride a brown horse=monter un cheval marron;ride a bull=monter un taureau;jump over {hurdle} on a horse=sauter par-dessus {hurdle} à cheval;lead a horse=mener un cheval;gallop=galoper;lasso a calf=attraper un veau au lasso;fall off a horse=tomber de cheval;groom a horse=brosser un cheval"),
    ("dog", "run run park snow beach", """run=courir;run=courir;jump=sauter;play=jouer;run with {chew} in its mouth=courir avec {chew} dans la gueule;carry {chew}=porter {chew};catch {ball}=attraper {ball};chase {ball}=courir après {ball};chew on {chew}=mordiller {chew};walk=marcher;stand=se tenir;sit=être assis{e};jump in the air=sauter en l'air;
        bark=aboyer;dig=creuser;roll=se rouler;shake off water=s'ébrouer;swim=nager;hold {chew} in its mouth=tenir {chew} dans {sa} gueule;lie=être couché{e};sniff the ground=renifler le sol;play with a toy=jouer avec un jouet;leap=bondir;sniff another dog=renifler un autre chien;chase a cat=poursuivre un chat;play with another dog=jouer avec un autre chien;follow another dog=suivre un autre chien;pant=haleter;run after a rabbit=courir après un lapin"""),
    ("dog", "", """jump over {hurdle}=sauter par-dessus {hurdle};jump over {hurdle}=sauter par-dessus {hurdle};run through a tunnel=courir dans un tunnel;jump through a hoop=sauter à travers un cerceau;jump into a lake=sauter dans un lac;jump off a dock=sauter d'un ponton;jump to catch a frisbee=sauter pour attraper un frisbee;stick its head out of a car window=sortir la tête par la fenêtre d'une voiture;
        pull a sled=tirer un traîneau;run along a fence=courir le long d'une clôture;stand on its hind legs=se tenir sur {ses} pattes arrière;drink from a bowl=boire dans une gamelle;look out the window=regarder par la fenêtre;sleep on a rug=dormir sur un tapis;climb over a log=grimper sur un tronc d'arbre;lick its nose=se lécher le museau;race around a track=faire la course sur une piste"""),
    ("cat", "home home park", "sleep=dormir;sit=être assis{e};lie=être couché{e};play with a ball of yarn=jouer avec une pelote de laine;look out the window=regarder par la fenêtre;hide=se cacher;stretch=s'étirer;watch a bird=observer un oiseau;lick its paw=se lécher la patte;drink milk=boire du lait;chase a mouse=poursuivre une souris;yawn=bâiller"),
    ("horse", "field run", "gallop=galoper;graze=brouter;trot=trotter;run=courir;stand=se tenir;pull a cart=tirer une charrette;jump over {hurdle}=sauter par-dessus {hurdle};eat hay=manger du foin;pull a carriage=tirer une calèche;drink water=boire de l'eau;walk=marcher"),
    ("bird", "beach sky sky", "fly=voler;fly=voler;land=se poser;spread its wings=déployer {ses} ailes;sit on a branch=être perché{e} sur une branche;look for food=chercher de la nourriture;catch a fish=attraper un poisson;flap its wings=battre des ailes;stand on a rock=se tenir sur un rocher;take off=s'envoler;glide=planer"),
    ("farm", "field", "graze=brouter;eat grass=manger de l'herbe;stand=se tenir;rest=se reposer;drink from a stream=boire dans un ruisseau;lie=être couché{e};cross the road=traverser la route;walk=marcher;look at the camera=regarder l'appareil photo;follow a farmer=suivre un fermier"),
    ("wild", "", "walk through the grass=marcher dans l'herbe;drink from a river=boire dans une rivière;eat leaves=manger des feuilles;sleep in the sun=dormir au soleil;look at visitors=regarder les visiteurs;stand behind a fence=se tenir derrière une clôture;bathe in the mud=se baigner dans la boue;cross the road=traverser la route;rest under a tree=se reposer sous un arbre"),
    ("ape", "", "climb a tree=grimper à un arbre;hang from a branch=se balancer à une branche;eat a banana=manger une banane;eat a nut=manger une noisette;sit on a branch=être assis{e} sur une branche;look for food in a trash can=chercher de la nourriture dans une poubelle;stand on its hind legs=se tenir sur {ses} pattes arrière"),
]  # fmt: skip

# What people do at the same time; and whole clauses for someone else.
ASIDES = """smile=sourire;look at the camera=regarder l'appareil photo;hold {carried}=tenir {carried};talk on a cell phone=parler au téléphone;listen to music=écouter de la musique;laugh=rire;carry {carried}=porter {carried};
    hold {drink}=tenir {drink};eat {food}=manger {food};wave=faire signe de la main;read {reading}=lire {reading};look down=regarder vers le bas;look up=regarder vers le haut;look to the side=regarder sur le côté;sing=chanter;point at something=montrer quelque chose du doigt;
    look at something=regarder quelque chose;talk to a friend=parler à un ami;drink {drink}=boire {drink};look away=détourner le regard;hold a baby=tenir un bébé;make a face=faire une grimace;stick out {his} tongue=tirer la langue;clap {his} hands=taper dans {ses} mains"""

# Pictures without anyone: a group of THINGS; where; what it does.
SCENERY = [
    ("vehicle", "street", "be parked=être garé{e};be parked=être stationné{e};be stopped=être arrêté{e};be parked next to {landmark}=être garé{e} à côté {de landmark}"),
    ("cab", "", "be stuck in traffic=être coincé{e} dans les embouteillages;be covered with snow=être couvert{e} de neige;drive down a dirt road=rouler sur un chemin de terre;speed down the highway=rouler à toute vitesse sur l'autoroute;cross a bridge=traverser un pont;drive through the mud=rouler dans la boue;be parked in front of {landmark}=être garé{e} devant {landmark};turn a corner=tourner au coin de la rue"),
    ("boat", "boating", "float=flotter;sail=naviguer;be tied to a dock=être amarré{e} à un quai;drift=dériver"),
    ("boat", "", "lie on the sand=reposer sur le sable"),
    ("decor", "", "be for sale=être à vendre;be for sale at a flea market=être à vendre dans un marché aux puces;be covered with dust=être couvert{e} de poussière;lie on the floor=traîner par terre"),
    ("furniture seat", "", "stand in the middle of the room=se trouver au milieu de la pièce;be covered with books=être couvert{e} de livres;stand next to a window=se trouver à côté d'une fenêtre;be covered with dust=être couvert{e} de poussière;stand in the corner=se trouver dans le coin"),
    ("tool gear", "", "lean against a wall=être appuyé{e} contre un mur;lie on the ground=traîner par terre;lean against {landmark}=être appuyé{e} contre {landmark};lie on the grass=traîner dans l'herbe;be covered with mud=être couvert{e} de boue;hang on a wall=être accroché{e} à un mur"),
    ("carried toy", "", "lie on the ground=traîner par terre;be left on a bench=être abandonné{e} sur un banc;lie on a table=être posé{e} sur une table;lie on the floor=traîner par terre;be hidden under the bed=être caché{e} sous le lit"),
    ("meal food", "", "lie on a plate=être posé{e} sur une assiette;be displayed in a shop window=être exposé{e} dans une vitrine;be served on a tray=être servi{e} sur un plateau;wait on the table=attendre sur la table"),
]  # fmt: skip

# Plain sentences: English|French|groups. {a X}, {the X}, {my X} and {many X} are the noun; {e} and {est} agree with it, {is} and {are} in English.
PLAIN = """I need {a X}.|J'ai besoin {de a X}.|tool carried gear vehicle seat furniture instrument boat clothes
Where is {my X}?|Où est {my X} ?|tool carried gear toy instrument clothes reading
{the X} is leaning against the wall.|{the X} {est} appuyé{e} contre le mur.|tool gear
I can't find {my X}.|Je ne trouve pas {my X}.|tool carried gear toy reading clothes
He bought {a X} yesterday.|Il a acheté {a X} hier.|tool carried gear toy vehicle boat instrument furniture seat decor meal clothes
She gave me {a X}.|Elle m'a donné {a X}.|toy carried drink food instrument reading clothes
Can you give me {the X}?|Peux-tu me donner {the X} ?|tool carried gear reading drink
There is {a X} in the garden.|Il y a {a X} dans le jardin.|tool toy seat carried bird cat dog ball
There is {a X} on the table.|Il y a {a X} sur la table.|tool carried drink food reading meal toy
There are {many X} in front of the house.|Il y a {many X} devant la maison.|vehicle tool seat people dog cat
I saw {a X} in the street.|J'ai vu {a X} dans la rue.|vehicle people dog cat horse pushed
{the X} is broken.|{the X} {est} cassé{e}.|tool gear instrument seat furniture decor toy pushed
Put {the X} on the table, please.|Pose {the X} sur la table, s'il te plaît.|carried drink food reading meal tool
We met near {the X}.|Nous nous sommes rencontrés près {de the X}.|landmark
Let's meet in front of {the X}.|Retrouvons-nous devant {the X}.|landmark
I am waiting for you behind {the X}.|Je t'attends derrière {the X}.|landmark
{the X} is next to {the landmark}.|{the X} {est} à côté {de the landmark}.|vehicle people
Do you see {the X} over there?|Vois-tu {the X} là-bas ?|landmark vehicle boat bird people dog horse
I know this {bare X}.|Je connais {this X}.|people
{the X} is asking for help.|{the X} demande de l'aide.|people
{the X} looked at me and smiled.|{the X} m'a regardé et a souri.|people
Who is {the X} in this picture?|Qui est {the X} sur cette photo ?|people
How many {bare many X} do you see?|Combien {de many X} vois-tu ?|people vehicle landmark dog bird horse boat
I would like {a X}, please.|Je voudrais {a X}, s'il vous plaît.|food drink meal
My brother is afraid of {the X}.|Mon frère a peur {de the X}.|dog horse wild bird cat
{the X} belongs to my sister.|{the X} appartient à ma sœur.|tool carried gear toy vehicle boat instrument seat dog cat horse clothes
{the X} is too heavy for me.|{the X} {est} trop lourd{e} pour moi.|tool carried gear furniture
I took a picture of {the X}.|J'ai pris une photo {de the X}.|landmark vehicle people dog bird wild horse boat
My father is repairing {the X}.|Mon père répare {the X}.|tool vehicle boat furniture seat pushed built
She can play {the X}.|Elle sait jouer {de the X}.|instrument
I have never played {the X}.|Je n'ai jamais joué {de the X}.|instrument
How much does this {bare X} cost?|Combien coûte {this X} ?|tool carried gear toy vehicle instrument furniture decor seat clothes
This {bare X} is mine.|{this X} est à moi.|tool carried gear toy instrument clothes reading ball
Don't forget {your X}!|N'oublie pas {ton X} !|carried gear clothes instrument tool
{the X} is under the bed.|{the X} {est} sous le lit.|toy carried clothes reading cat ball
He hurt himself with {a X}.|Il s'est blessé avec {a X}.|tool gear
{the X} was built a hundred years ago.|{the X} {a} été construit{e} il y a cent ans.|landmark built
I left {my X} in the car.|J'ai laissé {my X} dans la voiture.|carried gear clothes reading instrument
{the X} is dirty.|{the X} {est} sale{s}.|vehicle clothes furniture seat boat dog built
They are looking for {the X}.|Ils cherchent {the X}.|tool carried toy dog cat people ball
Is this {your X}?|Est-ce que c'est {ton X} ?|carried gear clothes instrument dog cat vehicle toy
She is wearing {a X} today.|Elle porte {a X} aujourd'hui.|clothes
Take off {your X}.|Enlève {ton X}.|clothes
I like {this X}.|J'aime bien {this X}.|clothes instrument furniture decor vehicle reading
The children are playing with {the X}.|Les enfants jouent avec {the X}.|toy ball dog cat
{the X} is crossing the road.|{the X} traverse la route.|people dog farm bird horse
Bring me {a X}.|Apporte-moi {a X}.|tool drink seat carried reading
We bought {many X} at the market.|Nous avons acheté {many X} au marché.|goods food
My grandmother makes {many X}.|Ma grand-mère fait {many X}.|meal toy
He fell off {the X}.|Il est tombé {de the X}.|seat boat horse
She sat down on {the X}.|Elle s'est assise sur {the X}.|seat"""

# French verbs that are not regular: he, they, -ing.
IRREGULAR = """tenir tient tiennent tenant;attendre attend attendent attendant;sourire sourit sourient souriant;détendre détend détendent détendant;prendre prend prennent prenant;boire boit boivent buvant;lire lit lisent lisant;écrire écrit écrivent écrivant;rire rit rient riant;
    dormir dort dorment dormant;faire fait font faisant;courir court courent courant;conduire conduit conduisent conduisant;descendre descend descendent descendant;franchir franchit franchissent franchissant;ouvrir ouvre ouvrent ouvrant;cueillir cueille cueillent cueillant;nourrir nourrit nourrissent nourrissant;
    étendre étend étendent étendant;peindre peint peignent peignant;coudre coud cousent cousant;brandir brandit brandissent brandissant;vendre vend vendent vendant;apprendre apprend apprennent apprenant;traire trait traient trayant;pétrir pétrit pétrissent pétrissant;servir sert servent servant;produire produit produisent produisant;
    divertir divertit divertissent divertissant;construire construit construisent construisant;poursuivre poursuit poursuivent poursuivant;suivre suit suivent suivant;battre bat battent battant;bondir bondit bondissent bondissant;sortir sort sortent sortant;atteindre atteint atteignent atteignant;rafraîchir rafraîchit rafraîchissent rafraîchissant;
    être est sont étant;éteindre éteint éteignent éteignant;mettre met mettent mettant;remplir remplit remplissent remplissant;tondre tond tondent tondant;jeter jette jettent jetant;faire fait font faisant;entraîner entraîne entraînent entraînant;émincer émince émincent éminçant;balayer balaie balaient balayant;envoyer envoie envoient envoyant;essuyer essuie essuient essuyant"""

# What else goes on; how someone stands or sits; families; wishes, before an infinitive.
ONLOOKERS = """while others watch=pendant que d'autres regardent;as people walk by=tandis que des gens passent;while a dog watches=pendant qu'un chien regarde;as the sun sets=alors que le soleil se couche;
    while cars drive by=pendant que des voitures passent;in the background=à l'arrière-plan;in the foreground=au premier plan;at night=la nuit"""
CHEERS = """while spectators cheer=pendant que des spectateurs applaudissent;as a crowd watches=sous le regard de la foule;while the audience claps=pendant que le public applaudit;
    as people take pictures=tandis que des gens prennent des photos;while others watch=pendant que d'autres regardent;as the judges look on=sous le regard des juges"""
POSES = """with {his} arms crossed=les bras croisés;with {his} eyes closed=les yeux fermés;with {his} hands in {his} pockets=les mains dans les poches;with {his} back to the camera=dos à l'appareil photo;
    with {his} legs crossed=les jambes croisées;with {his} head in {his} hands=la tête dans les mains"""
FAMILIES = """a man and a woman=un homme et une femme;two men and a woman=deux hommes et une femme;a boy and a girl=un garçon et une fille;a father and his son=un père et son fils;a mother and her daughter=une mère et sa fille;
    two women and a man=deux femmes et un homme;a woman and two children=une femme et deux enfants;two boys and a girl=deux garçons et une fille;a young couple and their baby=un jeune couple et leur bébé;a man and a little girl=un homme et une petite fille;
    a grandfather and his grandson=un grand-père et son petit-fils;a mother and her children=une mère et ses enfants;a bride and groom=des mariés;an older man and a young boy=un homme âgé et un jeune garçon;two brothers=deux frères;two friends=deux amis"""
WISHES = """I want to=je veux;I would like to=j'aimerais;I am going to=je vais;we want to=nous voulons;we are going to=nous allons;he likes to=il aime;she likes to=elle aime;he is going to=il va;she wants to=elle veut;my son wants to=mon fils veut;
    they are going to=ils vont;my daughter likes to=ma fille aime;I have never seen him=je ne l'ai jamais vu;I like to=j'aime;do you want to=veux-tu;we saw them=nous les avons vus;it is fun to=c'est amusant de;I saw her=je l'ai vue"""

# Kinds of places where someone can just be, those that have a view, and verbs that take someone somewhere.
STAY = "street park field forest beach indoor transit seat market stage mountain snow site court pitch ice boating mark"
OUTSIDE = "street park field forest beach water boating snow slope mountain path run site market ramp waves climb"
MOVES = """walk run jog stroll ride push pull carry hurry hike drive march race speed chase jump gallop trot leap swim ski snowboard paddle skateboard fly glide
    take lead do perform slide steer sail row"""
MOUNTS = """on a bicycle=à vélo;on a horse=à cheval;on a motorcycle=à moto;on a skateboard=sur un skateboard;on a ladder=sur une échelle;in a wheelchair=en fauteuil roulant;on crutches=avec des béquilles;on a swing=sur une balançoire;
    on a trampoline=sur un trampoline;in a boat=dans un bateau;on a surfboard=sur une planche de surf;on skis=à skis;on rollerblades=en rollers;in a canoe=dans un canoë;on a scooter=en trottinette;on a slide=sur un toboggan;in a car=dans une voiture;
    on a sled=sur une luge;at a table=à une table;on a balcony=sur un balcon;in a doorway=sur le pas d'une porte;on a bench=sur un banc;on a roof=sur un toit;in the kitchen=dans la cuisine;on a unicycle=sur un monocycle;on a jet ski=sur un jet-ski;
    on a roller coaster=sur des montagnes russes;on an escalator=sur un escalator;in a crowd=dans une foule;on stilts=sur des échasses;in a hot-air balloon=dans une montgolfière"""

# How often some kinds are described, and which of them can be children.
OFTEN = {"any": 3, "adult": 2, "child": 2, "dog": 3}
YOUNG = (
    "footballer",
    "hitter",
    "basket",
    "hockey",
    "cyclist",
    "skateboarder",
    "swimmer",
    "skier",
    "runner",
    "dancer",
    "surfer",
    "musician",
)
POSITIONS = [
    ["next to", "à côté"],
    ["in front of", "devant"],
    ["behind", "derrière"],
    ["near", "près"],
    ["by", "près"],
    ["beside", "à côté"],
]
# The same words as they are also said or written.
VARIANTS = {
    "gray": "grey", "colorful": "colourful", "sidewalk": "pavement", "theater": "theatre", "cell phone": "mobile phone", "taking a picture": "taking a photo", "taking pictures": "taking photos", "takes pictures": "takes photos", "for a picture": "for a photo", "in this picture": "in this photo",
    "mustache": "moustache", "bicycle": "bike", "T-shirt": "t-shirt", "T-shirts": "t-shirts", "couch": "sofa", "plaid": "checked", "checkered": "checked",
    "parking lot": "car park", "subway": "metro", "woods": "forest", "motorcycle": "motorbike", "policeman": "police officer", "flowered": "floral", "hard hat": "construction helmet",
    "leaps": "jumps", "snowy": "snow-covered", "blond": "blonde", "large": "big", "near": "close to", "sticking out": "poking out", "fixing": "repairing", "making a face": "pulling a face",
}  # fmt: skip
