"""The words from which pronouns.py writes its sentences: nouns, qualities, and what is said of one noun."""

from __future__ import annotations

__all__ = [
    "ACTS",
    "ANIMALS",
    "EFFECTS",
    "MOODS",
    "NOUNS",
    "OF",
    "OF_PEOPLE",
    "PEOPLE",
    "QUALITIES",
    "SINGLES",
    "THINGS",
    "WHO",
]

# Nouns: English:French:gender, then the plurals where they are not formed with -s (- where there is none).
# _ is a space; * marks a French h that is aspirated.
NOUNS = {
    "animal": """horse:cheval:m:horses:chevaux mare:jument:f cow:vache:f goat:chèvre:f sheep:mouton:m:sheep:moutons
        bird:oiseau:m:birds:oiseaux duck:canard:m goose:oie:f:geese:oies swan:cygne:m owl:*hibou:m:owls:hiboux
        parrot:perroquet:m squirrel:écureuil:m giraffe:girafe:f zebra:zèbre:m camel:chameau:m:camels:chameaux
        seal:phoque:m lizard:lézard:m calf:veau:m:calves:veaux lamb:agneau:m:lambs:agneaux foal:poulain:m
        kitten:chaton:m puppy:chiot:m:puppies:chiots magpie:pie:f swallow:hirondelle:f pigeon:pigeon:m
        seagull:mouette:f hedgehog:*hérisson:m mole:taupe:f beaver:castor:m deer:cerf:m:deer:cerfs doe:biche:f
        pig:cochon:m bull:taureau:m:bulls:taureaux ant:fourmi:f fly:mouche:f:flies:mouches
        toad:crapaud:m butterfly:papillon:m:butterflies:papillons otter:loutre:f weasel:belette:f peacock:paon:m
        ostrich:autruche:f:ostriches:autruches turkey:dinde:f rooster:coq:m sow:truie:f pony:poney:m:ponies:poneys
        hamster:*hamster:m marmot:marmotte:f kangaroo:kangourou:m crab:crabe:m crow:corbeau:m:crows:corbeaux stork:cigogne:f""",
    "hunter": """bear:ours:m:bears:ours tiger:tigre:m fox:renard:m:foxes:renards eagle:aigle:m panther:panthère:f
        crocodile:crocodile:m shark:requin:m snake:serpent:m whale:baleine:f
        lynx:lynx:m:lynxes:lynx lioness:lionne:f:lionesses:lionnes leopard:léopard:m falcon:faucon:m viper:vipère:f
        orca:orque:f tigress:tigresse:f:tigresses:tigresses""",
    "prey": """goat:chèvre:f sheep:mouton:m:sheep:moutons duck:canard:m goose:oie:f:geese:oies lamb:agneau:m:lambs:agneaux
        mole:taupe:f doe:biche:f pigeon:pigeon:m magpie:pie:f calf:veau:m:calves:veaux seal:phoque:m swallow:hirondelle:f
        foal:poulain:m kitten:chaton:m
        turkey:dinde:f weasel:belette:f otter:loutre:f rooster:coq:m piglet:porcelet:m marmot:marmotte:f ewe:brebis:f:ewes:brebis
        hare:lièvre:m partridge:perdrix:f:partridges:perdrix""",
    "vehicle": """taxi:taxi:m scooter:scooter:m van:camionnette:f ambulance:ambulance:f caravan:caravane:f
        tram:tramway:m wagon:chariot:m limousine:limousine:f minibus:minibus:m:minibuses:minibus
        coach:autocar:m:coaches:autocars jeep:jeep:f moped:mobylette:f carriage:calèche:f sleigh:traîneau:m:sleighs:traîneaux
        convertible:décapotable:f bulldozer:bulldozer:m""",
    "road": """road:route:f highway:autoroute:f avenue:avenue:f boulevard:boulevard:m crossing:passage:m alley:ruelle:f
        track:chemin:m
        roundabout:rond-point:m:roundabouts:ronds-points footbridge:passerelle:f shortcut:raccourci:m""",
    "vessel": "ferry:ferry:m:ferries:ferrys canoe:canoë:m sailboat:voilier:m raft:radeau:m:rafts:radeaux barge:péniche:f "
    "gondola:gondole:f "
    "yacht:yacht:m trawler:chalutier:m rowboat:barque:f",
    "water": "lake:lac:m canal:canal:m:canals:canaux stream:ruisseau:m:streams:ruisseaux sea:mer:f swamp:marécage:m "
    "lagoon:lagune:f",
    "seat": """chair:chaise:f armchair:fauteuil:m stool:tabouret:m bench:banc:m:benches:bancs mattress:matelas:m:mattresses:matelas
        cushion:coussin:m hammock:*hamac:m""",
    "furniture": """wardrobe:armoire:f piano:piano:m bookcase:bibliothèque:f screen:écran:m
        chest:coffre:m dresser:commode:f""",
    "container": """bag:sac:m basket:panier:m bucket:seau:m:buckets:seaux jar:bocal:m:jars:bocaux barrel:tonneau:m:barrels:tonneaux
        trunk:malle:f crate:caisse:f backpack:sac_à_dos:m:backpacks:sacs_à_dos pocket:poche:f envelope:enveloppe:f
        drawer:tiroir:m
        box:boîte:f:boxes:boîtes case:étui:m wallet:portefeuille:m safe:coffre-fort:m:safes:coffres-forts pouch:pochette:f:pouches:pochettes
        satchel:cartable:m bin:poubelle:f pitcher:cruche:f""",
    "clothes": """skirt:jupe:f sweater:pull:m jacket:veste:f scarf:écharpe:f:scarves:écharpes glove:gant:m tie:cravate:f
        sock:chaussette:f belt:ceinture:f suit:costume:m shoe:chaussure:f boot:botte:f cap:casquette:f
        raincoat:imperméable:m pyjama:pyjama:m
        blouse:chemisier:m cardigan:gilet:m sandal:sandale:f hat:chapeau:m:hats:chapeaux kimono:kimono:m cape:cape:f""",
    "jewel": "ring:bague:f necklace:collier:m watch:montre:f:watches:montres bracelet:bracelet:m coin:pièce:f "
    "diamond:diamant:m pearl:perle:f",
    "device": """computer:ordinateur:m television:télévision:f radio:radio:f camera:appareil_photo:m:cameras:appareils_photo
        fan:ventilateur:m tablet:tablette:f keyboard:clavier:m pump:pompe:f engine:moteur:m battery:batterie:f:batteries:batteries
        calculator:calculatrice:f microphone:micro:m torch:torche:f:torches:torches""",
    "tool": """saw:scie:f drill:perceuse:f needle:aiguille:f brush:brosse:f:brushes:brosses shovel:pelle:f axe:*hache:f
        broom:balai:m fork:fourchette:f rake:râteau:m:rakes:râteaux screwdriver:tournevis:m:screwdrivers:tournevis
        pencil:crayon:m
        pickaxe:pioche:f chisel:ciseau:m:chisels:ciseaux""",
    "instrument": "guitar:guitare:f violin:violon:m drum:tambour:m trumpet:trompette:f flute:flûte:f harp:*harpe:f",
    "food": """apple:pomme:f pear:poire:f orange:orange:f lemon:citron:m strawberry:fraise:f:strawberries:fraises
        peach:pêche:f:peaches:pêches melon:melon:m sandwich:sandwich:m:sandwiches:sandwichs pizza:pizza:f omelette:omelette:f
        pie:tarte:f yogurt:yaourt:m fish:poisson:m:fish:poissons steak:steak:m potato:pomme_de_terre:f:potatoes:pommes_de_terre
        onion:oignon:m tomato:tomate:f:tomatoes:tomates pepper:poivron:m salad:salade:f biscuit:biscuit:m
        sausage:saucisse:f mushroom:champignon:m
        cherry:cerise:f:cherries:cerises apricot:abricot:m plum:prune:f cucumber:concombre:m lettuce:laitue:f ham:jambon:m
        waffle:gaufre:f croissant:croissant:m pineapple:ananas:m:pineapples:ananas fig:figue:f pancake:crêpe:f
        artichoke:artichaut:m turnip:navet:m pumpkin:citrouille:f oyster:huître:f leek:poireau:m:leeks:poireaux""",
    "drink": "water:eau:f:-:- coffee:café:m:-:- juice:jus:m:-:- beer:bière:f:-:- lemonade:limonade:f:-:- cider:cidre:m:-:- "
    "broth:bouillon:m:-:- "
    "wine:vin:m:-:- cocoa:cacao:m:-:- champagne:champagne:m:-:- vodka:vodka:f:-:- infusion:infusion:f:-:-",
    "text": """letter:lettre:f poem:poème:m novel:roman:m magazine:magazine:m dictionary:dictionnaire:m:dictionaries:dictionnaires
        article:article:m report:rapport:m contract:contrat:m message:message:m postcard:carte_postale:f:postcards:cartes_postales
        note:note:f""",
    "matter": """law:loi:f problem:problème:m project:projet:m decision:décision:f rule:règle:f theory:théorie:f:theories:théories
        question:question:f method:méthode:f crisis:crise:f:crises:crises""",
    "talk": "lesson:leçon:f speech:discours:m:speeches:discours answer:réponse:f article:article:m report:rapport:m "
    "lecture:conférence:f example:exemple:m",
    "event": "party:fête:f:parties:fêtes trip:voyage:m meeting:réunion:f concert:concert:m exam:examen:m race:course:f "
    "film:film:m wedding:mariage:m game:jeu:m:games:jeux",
    "place": """church:église:f:churches:églises castle:château:m:castles:châteaux tower:tour:f hospital:hôpital:m:hospitals:hôpitaux
        bakery:boulangerie:f:bakeries:boulangeries theatre:théâtre:m stadium:stade:m factory:usine:f:factories:usines
        market:marché:m restaurant:restaurant:m pharmacy:pharmacie:f:pharmacies:pharmacies university:université:f:universities:universités
        palace:palais:m:palaces:palais pool:piscine:f
        prison:prison:f airport:aéroport:m cinema:cinéma:m chapel:chapelle:f mill:moulin:m mosque:mosquée:f
        supermarket:supermarché:m inn:auberge:f""",
    "room": """kitchen:cuisine:f attic:grenier:m balcony:balcon:m:balconies:balcons garage:garage:m cellar:cave:f
        corridor:couloir:m bathroom:salle_de_bains:f:bathrooms:salles_de_bains""",
    "shelter": """barn:grange:f stable:écurie:f cabin:cabane:f cage:cage:f park:parc:m forest:forêt:f garage:garage:m
        kennel:chenil:m cellar:cave:f nest:nid:m farm:ferme:f""",
    "land": "field:champ:m meadow:prairie:f valley:vallée:f forest:forêt:f village:village:m city:ville:f:cities:villes "
    "desert:désert:m island:île:f",
    "weather": "rain:pluie:f:-:- wind:vent:m snow:neige:f:-:- storm:tempête:f thunderstorm:orage:m hail:grêle:f:-:- "
    "frost:gel:m:-:-",
    "force": "storm:tempête:f fire:incendie:m wave:vague:f hurricane:ouragan:m flood:inondation:f wind:vent:m "
    "earthquake:séisme:m explosion:explosion:f avalanche:avalanche:f",
    "plant": "rose:rose:f cactus:cactus:m:cactuses:cactus oak:chêne:m grass:herbe:f:-:- plant:plante:f tulip:tulipe:f "
    "palm_tree:palmier:m vine:vigne:f ivy:lierre:m:-:-",
    "cover": "tree:arbre:m rock:rocher:m bush:buisson:m:bushes:buissons oak:chêne:m haystack:meule_de_foin:f:haystacks:meules_de_foin "
    "barrel:tonneau:m:barrels:tonneaux crate:caisse:f barn:grange:f tower:tour:f",
    "shield": "umbrella:parapluie:m jacket:veste:f cabin:cabane:f raincoat:imperméable:m cap:casquette:f parasol:parasol:m",
    "person": """father:père:m mother:mère:f uncle:oncle:m aunt:tante:f grandfather:grand-père:m grandmother:grand-mère:f
        brother:frère:m daughter:fille:f son:fils:m niece:nièce:f nephew:neveu:m cousin:cousin:m""",
    "heater": "oven:four:m stove:poêle:m:stoves:poêles fireplace:cheminée:f heater:radiateur:m boiler:chaudière:f",
    "starter": "battery:batterie:f:batteries:batteries engine:moteur:m pump:pompe:f remote_control:télécommande:f button:bouton:m",
    "bucket": "bucket:seau:m:buckets:seaux ditch:fossé:m:ditches:fossés pot:marmite:f bathtub:baignoire:f well:puits:m:wells:puits",
    "thing": """parcel:colis:m:parcels:colis toy:jouet:m doll:poupée:f tent:tente:f racket:raquette:f
        kite:cerf-volant:m:kites:cerfs-volants sledge:luge:f puzzle:puzzle:m painting:tableau:m:paintings:tableaux poster:affiche:f
        globe:globe:m wheel:roue:f tyre:pneu:m antenna:antenne:f ski:ski:m helmet:casque:m cushion:coussin:m crown:couronne:f""",
    "opening": """gate:portail:m entrance:entrée:f gap:brèche:f corridor:couloir:m arch:arche:f:arches:arches
        hatch:trappe:f:hatches:trappes porch:porche:m:porches:porches skylight:lucarne:f lift:ascenseur:m""",
    "barrier": """hedge:*haie:f barrier:barrière:f ditch:fossé:m:ditches:fossés embankment:talus:m:embankments:talus pit:fosse:f gate:portail:m
        trench:tranchée:f:trenches:tranchées hurdle:obstacle:m""",
    "overhead": """footbridge:passerelle:f arch:arche:f:arches:arches porch:porche:m:porches:porches awning:auvent:m cable:câble:m
        barrier:barrière:f viaduct:viaduc:m beam:poutre:f""",
    "missile": """brick:brique:f arrow:flèche:f pebble:caillou:m:pebbles:cailloux dart:fléchette:f anvil:enclume:f log:bûche:f
        stick:bâton:m mallet:maillet:m pickaxe:pioche:f boomerang:boomerang:m spear:lance:f dumbbell:haltère:m""",
    "breakable": """vase:vase:m pane:vitre:f windscreen:pare-brise:m:windscreens:pare-brise teapot:théière:f bulb:ampoule:f
        porthole:*hublot:m tile:tuile:f dish:plat:m:dishes:plats figurine:figurine:f chandelier:lustre:m aquarium:aquarium:m
        lantern:lanterne:f counter:comptoir:m""",
    "support": """cable:câble:m chain:chaîne:f hook:crochet:m strap:sangle:f pillar:pilier:m beam:poutre:f plank:planche:f
        column:colonne:f pole:poteau:m:poles:poteaux trestle:tréteau:m:trestles:tréteaux crane:grue:f""",
    "link": "cable:câble:m chain:chaîne:f string:ficelle:f strap:sangle:f thread:fil:m hose:tuyau:m:hoses:tuyaux ribbon:ruban:m "
    "lace:lacet:m",
    "load": """swing:balançoire:f chandelier:lustre:m aquarium:aquarium:m bell:cloche:f safe:coffre-fort:m:safes:coffres-forts
        anchor:ancre:f wardrobe:armoire:f piano:piano:m trunk:malle:f engine:moteur:m barrel:tonneau:m:barrels:tonneaux
        crate:caisse:f anvil:enclume:f""",
    "cloth": """tarpaulin:bâche:f towel:serviette:f sheet:drap:m tablecloth:nappe:f veil:voile:m net:filet:m quilt:couette:f
        flag:drapeau:m:flags:drapeaux canvas:toile:f:canvases:toiles handkerchief:mouchoir:m""",
    "covered": """pool:piscine:f counter:comptoir:m pit:fosse:f well:puits:m:wells:puits chest:coffre:m haystack:meule_de_foin:f:haystacks:meules_de_foin
        armchair:fauteuil:m wardrobe:armoire:f van:camionnette:f piano:piano:m""",
    "light": """torch:torche:f:torches:torches lantern:lanterne:f spotlight:projecteur:m bulb:ampoule:f lighthouse:phare:m
        match:allumette:f:matches:allumettes lighter:briquet:m""",
    "cleaner": "shampoo:shampoing:m detergent:lessive:f sponge:éponge:f brush:brosse:f:brushes:brosses cloth:chiffon:m "
    "mop:serpillière:f product:produit:m",
    "mark": "stain:tache:f rust:rouille:f:-:- mud:boue:f:-:- tar:goudron:m:-:- varnish:vernis:m:-:- smell:odeur:f ink:encre:f:-:- "
    "mark:marque:f scribble:gribouillage:m blood:sang:m:-:-",
    "blade": "saw:scie:f razor:rasoir:m sword:épée:f cleaver:*hachoir:m blade:lame:f sickle:faucille:f axe:*hache:f sabre:sabre:m",
    "beast": """horse:cheval:m:horses:chevaux mare:jument:f ox:bœuf:m:oxen:bœufs mule:mule:f pony:poney:m:ponies:poneys
        camel:chameau:m:camels:chameaux cow:vache:f bull:taureau:m:bulls:taureaux reindeer:renne:m:reindeer:rennes zebra:zèbre:m""",
    "towed": """plough:charrue:f wagon:chariot:m sleigh:traîneau:m:sleighs:traîneaux trailer:remorque:f caravan:caravane:f
        carriage:calèche:f log:bûche:f""",
    "insect": "wasp:guêpe:f mosquito:moustique:m:mosquitoes:moustiques fly:mouche:f:flies:mouches beetle:scarabée:m ladybird:coccinelle:f "
    "butterfly:papillon:m:butterflies:papillons",
    "stinger": "wasp:guêpe:f mosquito:moustique:m:mosquitoes:moustiques hornet:frelon:m scorpion:scorpion:m "
    "jellyfish:méduse:f:jellyfish:méduses flea:puce:f",
    "aircraft": "helicopter:hélicoptère:m glider:planeur:m rocket:fusée:f airship:dirigeable:m drone:drone:m shuttle:navette:f seaplane:hydravion:m "
    "hot_air_balloon:montgolfière:f",
    "upright": "hedge:*haie:f barrier:barrière:f gate:portail:m hurdle:obstacle:m palisade:palissade:f railing:garde-corps:m:railings:garde-corps",
    "trench": "ditch:fossé:m:ditches:fossés pit:fosse:f trench:tranchée:f:trenches:tranchées crevasse:crevasse:f ravine:ravin:m",
    "institution": """bank:banque:f council:conseil:m club:club:m agency:agence:f:agencies:agences team:équipe:f ministry:ministère:m:ministries:ministères
        association:association:f army:armée:f:armies:armées government:gouvernement:m region:région:f union:syndicat:m""",
    "proposal": "proposal:proposition:f offer:offre:f request:demande:f plan:plan:m budget:budget:m treaty:traité:m:treaties:traités "
    "agreement:accord:m reform:réforme:f",
    "harbour": "harbour:port:m lagoon:lagune:f canal:canal:m:canals:canaux estuary:estuaire:m:estuaries:estuaires marina:marina:f creek:crique:f",
    "slope": "slope:pente:f pass:col:m:passes:cols ramp:rampe:f mountain:montagne:f embankment:talus:m:embankments:talus ridge:crête:f volcano:volcan:m:volcanoes:volcans",
    "ground": "sand:sable:m:-:- mud:boue:f:-:- snow:neige:f:-:- gravel:gravier:m:-:- clay:argile:f:-:- swamp:marécage:m meadow:prairie:f",
    "spread": """sauce:sauce:f butter:beurre:m:-:- honey:miel:m:-:- mustard:moutarde:f:-:- cream:crème:f:-:- sugar:sucre:m:-:-
        oil:huile:f:-:- vinegar:vinaigre:m:-:- syrup:sirop:m""",
    "paste": "butter:beurre:m:-:- honey:miel:m:-:- mustard:moutarde:f:-:- cream:crème:f:-:- chocolate:chocolat:m:-:- marmalade:marmelade:f:-:-",
    "toast": "toast:tartine:f:-:- pancake:crêpe:f waffle:gaufre:f biscuit:biscuit:m croissant:croissant:m bun:brioche:f pie:tarte:f",
    "mug": "goblet:gobelet:m jug:carafe:f pitcher:cruche:f tankard:chope:f flask:gourde:f bucket:seau:m:buckets:seaux",
    "dwelling": """villa:villa:f cabin:cabane:f chalet:chalet:m castle:château:m:castles:châteaux farm:ferme:f studio:studio:m
        inn:auberge:f tent:tente:f campsite:camping:m""",
    "frozen": "chocolate:chocolat:m:-:- butter:beurre:m:-:- ice_cream:glace:f snowman:bonhomme_de_neige:m:snowmen:bonshommes_de_neige "
    "wax:cire:f:-:- ice:glace:f:-:-",
}  # fmt: skip

# Qualities: English=masculine=feminine; @ makes an idiom with avoir; ! does not vary.
QUALITIES = """
hungry=@faim;thirsty=@soif;afraid=@peur;scared=@peur;cold=@froid;hot=@chaud;sleepy=@sommeil;ashamed=@honte;right=@raison
wrong=@tort;starving=affamé=affamée;tired=fatigué=fatiguée;sick=malade=malade;exhausted=épuisé=épuisée;lost=perdu=perdue
sad=triste=triste;happy=heureux=heureuse;nervous=nerveux=nerveuse;worried=inquiet=inquiète;young=jeune=jeune;old=vieux=vieille
injured=blessé=blessée;alone=seul=seule;shy=timide=timide;brave=courageux=courageuse;strong=fort=forte;weak=faible=faible
curious=curieux=curieuse;lazy=paresseux=paresseuse;greedy=gourmand=gourmande;fierce=féroce=féroce;slow=lent=lente;fast=rapide=rapide
small=petit=petite;tiny=minuscule=minuscule;big=grand=grande;huge=énorme=énorme;kind=gentil=gentille;impatient=impatient=impatiente
absent=absent=absente;late=!en retard;busy=occupé=occupée;angry=!en colère;jealous=jaloux=jalouse;proud=fier=fière
ripe=mûr=mûre;juicy=juteux=juteuse;delicious=délicieux=délicieuse;fresh=frais=fraîche;sweet=sucré=sucrée;soft=mou=molle
sour=acide=acide;bitter=amer=amère;raw=cru=crue;spicy=épicé=épicée;hard=dur=dure;dry=sec=sèche;rotten=pourri=pourrie
salty=salé=salée;strange=étrange=étrange;warm-place=chaud=chaude;cold-thing=froid=froide;hot-thing=chaud=chaude
quiet=calme=calme;safe=sûr=sûre;dark=sombre=sombre;noisy=bruyant=bruyante;dangerous=dangereux=dangereuse;dirty=sale=sale
empty=vide=vide;on fire=!en feu;closed=fermé=fermée;open=ouvert=ouverte;locked=!fermé à clé=!fermée à clé;full=plein=pleine
deep=profond=profonde;icy=glacé=glacée;clean=propre=propre;calm=calme=calme;flooded=inondé=inondée;blocked=bloqué=bloquée
slippery=glissant=glissante;wet=mouillé=mouillée;muddy=boueux=boueuse;narrow=étroit=étroite;wide=large=large;low=bas=basse
tall=haut=haute;high=haut=haute;damaged=endommagé=endommagée;broken=cassé=cassée;broken down=!en panne;rusty=rouillé=rouillée
out of petrol=!à court d'essence;frozen=gelé=gelée;dead=mort=morte;heavy=lourd=lourde;light=léger=légère
expensive=cher=chère;cheap=!bon marché;ugly=laid=laide;beautiful=beau=belle;new=neuf=neuve;modern=moderne=moderne
solid=solide=solide;fragile=fragile=fragile;precious=précieux=précieuse;torn=déchiré=déchirée;worn out=usé=usée
comfortable=confortable=confortable;uncomfortable=inconfortable=inconfortable;elegant=élégant=élégante;practical=pratique=pratique
dusty=poussiéreux=poussiéreuse;sticky=collant=collante;thick=épais=épaisse;thin=mince=mince;round=rond=ronde;pointed=pointu=pointue
shiny=brillant=brillante;loud=bruyant=bruyante;silent=silencieux=silencieuse;close=proche=proche;far away=éloigné=éloignée
famous=célèbre=célèbre;crowded=bondé=bondée;short=court=courte;long=long=longue;urgent=urgent=urgente;easy=facile=facile
difficult=difficile=difficile;interesting=intéressant=intéressante;boring=ennuyeux=ennuyeuse;complicated=compliqué=compliquée
vague=vague=vague;unclear=confus=confuse;absurd=absurde=absurde;useless=inutile=inutile;useful=utile=utile;unfair=injuste=injuste
important=important=importante;violent=violent=violente;powerful=puissant=puissante;sudden=soudain=soudaine;badly built=!mal construit=!mal construite
isolated=isolé=isolée;made of wood=!en bois;delicate=délicat=délicate;rough=agité=agitée;unstable=instable=instable
white=blanc=blanche;black=noir=noire;blue=bleu=bleue;brown=marron=!marron;perfect=parfait=parfaite;magnificent=magnifique=magnifique
ready=prêt=prête;free=gratuit=gratuite;lost-thing=perdu=perdue;ruined=!en ruine;overheated=surchauffé=surchauffée
switched off=éteint=éteinte;well hidden=!bien caché=!bien cachée;ill=malade=malade;poor=pauvre=pauvre;rich=riche=riche
successful=réussi=réussie;recent=récent=récente;sad-thing=triste=triste;funny=drôle=drôle;fat=gros=grosse;restless=agité=agitée
stolen=volé=volée
bulky=volumineux=volumineuse;rigid=rigide=rigide;flexible=souple=souple;enormous=énorme=énorme;smooth=lisse=lisse;flat=plat=plate
hollow=creux=creuse;warped=déformé=déformée;crooked=tordu=tordue;robust=robuste=robuste;stuck=coincé=coincée;jammed=bloqué=bloquée
stained=taché=tachée;transparent=transparent=transparente;efficient=efficace=efficace;inefficient=inefficace=inefficace
unplugged=débranché=débranchée;defective=défectueux=défectueuse;badly fixed=!mal fixé=!mal fixée;stubborn=têtu=têtue
tenacious=tenace=tenace;suspicious=méfiant=méfiante;cautious=prudent=prudente;careless=imprudent=imprudente;clumsy=maladroit=maladroite
agile=agile=agile;aggressive=agressif=agressive;wild=sauvage=sauvage;lame=boiteux=boiteuse;deaf=sourd=sourde;asleep=endormi=endormie
distracted=distrait=distraite;clever=rusé=rusée;generous=généreux=généreuse;ambitious=ambitieux=ambitieuse;prosperous=prospère=prospère
short of money=!à court d'argent;divided=divisé=divisée;desperate=désespéré=désespérée;reasonable=raisonnable=raisonnable;clear=clair=claire
fair=juste=juste;incomplete=incomplet=incomplète;surprising=surprenant=surprenante;tasteless=fade=fade;tasty=savoureux=savoureuse
disgusting=dégoûtant=dégoûtante;lukewarm=tiède=tiède;smelly=malodorant=malodorante;greasy=gras=grasse;crumbly=friable=friable
overripe=!trop mûr=!trop mûre;colourful=coloré=colorée;thorny=épineux=épineuse;contaminated=contaminé=contaminée;cramped=exigu=exiguë
cosy=douillet=douillette;sunny=ensoleillé=ensoleillée;luxurious=luxueux=luxueuse;dilapidated=délabré=délabrée;abandoned=abandonné=abandonnée
deserted=désert=déserte;bumpy=cahoteux=cahoteuse;winding=sinueux=sinueuse;sloping=!en pente;expired=périmé=périmée;vast=vaste=vaste
badly organised=!mal organisé=!mal organisée
""".replace("\n", ";")  # fmt: skip

# What may be said of anything in a group, with one noun in the sentence.
OF = {
    "aircraft": "old;slow;new;damaged;modern;white;fast;empty;huge;defective",
    "vehicle vessel": "old;slow;new;comfortable;expensive;broken down;empty;dirty;modern;white;black;fast;full;blue",
    "seat furniture": "old;comfortable;heavy;ugly;broken;new;expensive;solid;dusty;brown;black;elegant",
    "container": "empty;full;heavy;light;old;solid;open;dirty;practical;black;blue;torn",
    "clothes": "new;old;torn;dirty;wet;elegant;expensive;cheap;black;blue;white;clean;worn out;brown",
    "jewel instrument": "precious;expensive;beautiful;old;broken;new;magnificent;fragile;shiny",
    "device tool": "broken;useful;useless;new;modern;practical;expensive;cheap;heavy;light;solid;old;rusty",
    "food": "delicious;rotten;fresh;ripe;salty;dry;raw;juicy;frozen;cold-thing;hot-thing;hard;strange",
    "drink": "cold-thing;hot-thing;bitter;delicious;sweet;fresh;strange;expensive",
    "text talk matter": "short;long;boring;interesting;difficult;easy;important;strange;useless;complicated;vague;recent",
    "event": "boring;long;funny;expensive;magnificent;free;important;short;successful",
    "place room shelter": "empty;old;closed;open;noisy;quiet;dirty;clean;modern;small;huge;beautiful;locked;dark;full",
    "water land road": "beautiful;dangerous;calm;huge;frozen;flooded;famous;wide;muddy",
    "animal hunter prey": "hungry;thirsty;tired;afraid;cold;hot;sleepy;sick;young;old;injured;lost;happy;sad;curious;nervous;scared;starving",
    "thing": "big;new;torn;heavy;cheap;light;beautiful;bulky;strange;old",
    "opening barrier": "narrow;closed;blocked;low;wide;dangerous;jammed",
    "breakable": "fragile;precious;ugly;beautiful;expensive;old;small",
    "support link": "solid;rusty;thick;worn out;long;light;robust",
    "cloth": "clean;torn;dirty;wet;thin;white;stained;transparent",
    "institution": "powerful;rich;ambitious;famous;poor;divided;generous",
    "proposal": "unfair;clear;reasonable;vague;important;surprising;complicated",
    "insect beast": "aggressive;tired;slow;injured;wild;restless;hungry;thirsty",
    "plant": "beautiful;tall;delicate;dry;magnificent;huge;dead;white;sick",
}
SINGLES = """
I know {A}. I think that {it} {is} {q}.|Je connais {A}. Je pense {quil} {soit}.
I remember {A} very well: {it} {was} {q}.|Je me souviens très bien {dA} : {il} {fut}.
We talked about {A} because {it} {was} {q}.|Nous avons parlé {dA} {parcequil} {fut}.
Everyone noticed {A} because {it} {was} {q}.|Tout le monde a remarqué {A} {parcequil} {fut}.
{P} complained about {A} because {it} {was} {q}.|{P} {sest} plaint{e} {dA} {parcequil} {fut}.
{P} spoke of {A}, but {it} {was} {q}.|{P} {a} parlé {dA}, mais {il} {fut}.
I thought of {A} because {it} {was} {q}.|J'ai pensé {aA} {parcequil} {fut}.
""".strip()  # fmt: skip
THINGS = """
{P} showed me {A} because {it} {was} {q}.|{P} m'{a} montré {A} {parcequil} {fut}.
I lost {A}, but {it} {was} {q}.|J'ai perdu {A}, mais {il} {fut}.
Have you seen {A}? {It} {is} {q}.|As-tu vu {A} ? {Il} {soit}.
{A} fell. {It} {was} {q}.|{A} {est} tombé{e}. {Il} {fut}.
Look at {A}! {It} {is} {q}!|Regarde {A} ! {Il} {soit} !
When I found {A}, {it} {was} {q}.|Quand j'ai trouvé {A}, {il} {fut}.
I will not take {A} if {it} {is} {q}.|Je ne prendrai pas {A} {sil} {soit}.
{A} disappeared. {It} {was} {q}.|{A} {a} disparu. {Il} {fut}.
He wants to keep {A} since {it} {is} {q}.|Il veut garder {A} {puisquil} {soit}.
Nobody took {A} because {it} {was} {q}.|Personne n'a pris {A} {parcequil} {fut}.
You can leave {A} here. {It} {is} {q}.|Tu peux laisser {A} ici. {Il} {soit}.
{P} found {A}, but {it} {was} {q}.|{P} {a} trouvé {A}, mais {il} {fut}.
{P} needs {A}, but I can't find {them}.|{P} a besoin {dA}, mais je ne {le} trouve pas.
I borrowed {A} and gave {them} back the next day.|J'ai emprunté {A} et {l}ai rendu{ée} le lendemain.
{P} wanted {A}, so I gave {them} away.|{P} voulait {A}, alors je {l}ai donné{ée}.
Where {is} {A}? I put {them} here because {it} {was} {q}.|Où {est} {A} ? Je {l}ai posé{ée} ici {parcequil} {fut}.
We won't sell {A}. {It} {is} {q}.|Nous ne vendrons pas {A}. {Il} {soit}.
""".strip()  # fmt: skip
ANIMALS = """
{A} {was} {q}, so {it} came back to the farm.|{A} {fut}, alors {il} {est} revenu{e} à la ferme.
{A} trembled because {it} {was} {q}.|{A} {tremblait} {parcequil} {fut}.
{A} came closer because {it} {was} {q}.|{A} {sest} approché{e} {parcequil} {fut}.
{A} woke up because {it} {was} {q}.|{A} {sest} réveillé{e} {parcequil} {fut}.
{A} can't sleep because {it} {is} {q}.|{A} {narrive} pas à dormir {parcequil} {soit}.
{A} made a lot of noise because {it} {was} {q}.|{A} {a} fait beaucoup de bruit {parcequil} {fut}.
Because {it} {was} {q}, {A} stopped.|Comme {il} {fut}, {A} {sest} arrêté{e}.
{A} followed us since {it} {was} {q}.|{A} nous {a} suivis {puisquil} {fut}.
If {A} {is} {q}, {it} will come.|Si {A} {soit}, {il} {viendra}.
When {A} {is} {q}, {it} cries.|Quand {A} {soit}, {il} {pleure}.
{A} {is} not moving. I think {it} {is} {q}.|{A} ne {bouge} pas. Je crois {quil} {soit}.
I helped {A} because {it} {was} {q}.|J'ai aidé {A} {parcequil} {fut}.
""".strip()  # fmt: skip
PEOPLE = """
{P} went home because {he} {was} {q}.|{P} {est} rentré{e} à la maison {parcequil} {fut}.
{P} sat down because {he} {was} {q}.|{P} {sest} assis{e} {parcequil} {fut}.
{P} stopped working because {he} {was} {q}.|{P} {a} arrêté de travailler {parcequil} {fut}.
{P} {was} {q}, so {he} left early.|{P} {fut}, alors {il} {est} parti{e} tôt.
{P} says that {he} {is} {q}.|{P} {dit} {quil} {soit}.
Since {he} {was} {q}, {P} stayed indoors.|Comme {il} {fut}, {P} {est} resté{e} à l'intérieur.
{P} called me because {he} {was} {q}.|{P} m'{a} appelé {parcequil} {fut}.
When {P} {is} {q}, {he} drinks some water.|Quand {P} {soit}, {il} {boit} de l'eau.
{P} didn't answer because {he} {was} {q}.|{P} {na} pas répondu {parcequil} {fut}.
""".strip()  # fmt: skip
OF_PEOPLE = (
    "hungry;thirsty;tired;cold;hot;afraid;sleepy;sick;sad;nervous;busy;late;exhausted;worried;alone;angry;ashamed;happy"
)
MOODS = "busy;tired;nervous;impatient;curious;happy;worried;hungry;cold"
# "It" for an act, not for a noun: ça.
WHO = [  # English, French, verb ending, me / him / her, agreement
    ("I", "je", 0, "me", "me", "m"), ("we", "nous", 2, "us", "nous", "mp"), ("he", "il", 1, "him", "le", "m"),
    ("she", "elle", 1, "her", "la", "f"), ("they", "ils", 3, "them", "les", "mp"),
]  # fmt: skip
ACTS = [  # English (I / he), French (je / il / nous / ils)
    ("swim in the morning", "swims in the morning", "nage nage nageons nagent", "le matin"),
    ("dance every day", "dances every day", "danse danse dansons dansent", "tous les jours"),
    ("sing very often", "sings very often", "chante chante chantons chantent", "très souvent"),
    ("listen to jazz", "listens to jazz", "écoute écoute écoutons écoutent", "du jazz"),
    ("eat chocolate", "eats chocolate", "mange mange mangeons mangent", "du chocolat"),
    ("cook at night", "cooks at night", "cuisine cuisine cuisinons cuisinent", "le soir"),
    ("play chess", "plays chess", "joue joue jouons jouent", "aux échecs"),
    ("watch the rain", "watches the rain", "regarde regarde regardons regardent", "la pluie"),
    ("talk to strangers", "talks to strangers", "parle parle parlons parlent", "à des inconnus"),
    ("walk along the sea", "walks along the sea", "marche marche marchons marchent", "au bord de la mer"),
    ("travel by night", "travels by night", "voyage voyage voyageons voyagent", "de nuit"),
]
EFFECTS = ["happy", "sad", "nervous", "sick", "jealous", "proud", "strong", "impatient", "calm"]
